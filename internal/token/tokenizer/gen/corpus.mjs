// Writes a corpus of strings for comparing tokenizers, a JSON list.
//
//   node gen/corpus.mjs SCALE out.json [source files to cut code from]
//
// The same arguments give the same corpus. Every text here was written for it.
import fs from 'node:fs';

const [scaleArg, out, ...sources] = process.argv.slice(2);
const scale = Number(scaleArg);

let state = 0x9e3779b9;
function rand(n) { // xorshift32
  state ^= state << 13; state >>>= 0;
  state ^= state >>> 17;
  state ^= state << 5; state >>>= 0;
  return state % n;
}
const pick = (a) => a[rand(a.length)];
const times = (n, f) => Array.from({ length: n }, (_, i) => f(i));

const sentences = [
  'The server answers the first token late when its queue is long, and nobody sees why.',
  "We'll measure it again; it's cheap, they're fast, and I'd rather know than guess. You've seen worse, haven't you?",
  "DON'T SHOUT. IT'S 3 O'CLOCK, SHE'LL COME, WE'VE WAITED, I'M SURE THEY'D AGREE, you'Re right, heLLO'ſ",
  'Prices rose from $1,234.56 to €98,765.43 (about 12.5%) between 2019-03-07 and 2024-11-30T23:59:59Z.',
  'Call me at +49 30 1234567 or write to someone@example.org; see https://example.com/a/b?c=d&e=f#g.',
  'Ein Lastgenerator, der selbst warten muss, misst vor allem sich selbst: größer, schöner, Straße, Äpfel, Übermut.',
  'Если очередь растёт, задержка растёт быстрее, чем нагрузка. Это видно на графике, но не в среднем.',
  'Les requêtes arrivent par vagues ; l’été, c’est pire. Où ça ? Là-bas, près de la forêt, à vingt-deux heures.',
  'Příliš žluťoučký kůň úpěl ďábelské ódy, a server mezitím mlčel.',
  'La media nasconde la coda: perché il novantanovesimo percentile è più onesto? ¿Y la mediana? ¡También!',
  '服务器在高负载下的延迟会迅速增加,平均值看不出来。我们用百分位数来描述,例如第九十九百分位。',
  '伺服器的佇列變長時,第一個字元會晚到;量測必須重複,否則沒有意義。',
  'サーバーの待ち行列が長くなると、最初のトークンが遅れます。カタカナ・ひらがな・漢字をまぜて書きます。ー゛゜',
  '부하가 커지면 첫 번째 토큰이 늦게 도착한다. 평균만 보면 알 수 없다.',
  'الخادم بطيء عندما يطول الطابور، والمتوسط لا يكفي. ١٢٣٤٥ رقم.',
  'שרת איטי הוא שרת עמוס; הממוצע אינו מספר את הסיפור.',
  'जब कतार लंबी होती है तो पहला टोकन देर से आता है। १२३ बार मापें।',
  'เมื่อคิวยาวขึ้น โทเค็นแรกจะมาช้า ค่าเฉลี่ยไม่บอกทุกอย่าง',
  'Khi hàng đợi dài ra, mã thông báo đầu tiên đến muộn; giá trị trung bình không nói lên điều đó.',
  'Η ουρά μεγαλώνει και ο διακομιστής αργεί. ΣΊΣΥΦΟΣ ς σ Σ.',
  'İstanbul ışık IŞIK ılık; DŽ Dž dž, ﬁ ﬂ ﬀ, ﷺ, ½ ⅓ ², Ⅷ ⅷ, ①②③, ㎏ ㍿ K Å Ω',
];
const code = [
  'func (s *Server) Serve(ctx context.Context, l net.Listener) error {\n\tfor {\n\t\tconn, err := l.Accept()\n\t\tif err != nil {\n\t\t\treturn fmt.Errorf("accepting: %w", err)\n\t\t}\n\t\tgo s.handle(conn)\n\t}\n}\n',
  'def percentile(xs, p):\n    """numpy\'s linear rule."""\n    xs = sorted(xs)\n    k = (len(xs) - 1) * p / 100\n    f = int(k)\n    return xs[f] + (xs[min(f + 1, len(xs) - 1)] - xs[f]) * (k - f)\n',
  'export const sum = (a: number[]): number => a.reduce((x, y) => x + y, 0); // O(n)\r\n\r\nconst re = /[^\\s"\'<>]+/gu;\r\n',
  '{"model":"m","messages":[{"role":"user","content":"hi \\u00e9"}],"max_tokens":128,"temperature":0.0,"stream":true}',
  'SELECT id, avg(ttft_ms) FROM calls WHERE run_id = 42 AND ok GROUP BY 1 HAVING count(*) > 10 ORDER BY 2 DESC;',
  '<div class="x-y" data-n=\'3\'>a &amp; b</div><!-- c --><br/>',
  'for i in $(seq 1 10); do echo "$i" | awk \'{print $1*2}\' >> out.txt 2>&1 || exit 1; done',
  '#include <stdio.h>\nint main(void){for(int i=0;i<10;++i)printf("%d\\n",i);return 0;}',
  'camelCaseIdentifier snake_case_identifier SCREAMING_CASE PascalCaseHTTPServer2XMLParser iPhone eBay XMLHttpRequest',
];
const specials = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<s>', '</s>', '<unk>', '<bos>', '<eos>', '<pad>', '[CLS]', '[SEP]', '[MASK]', '[UNK]', '[PAD]',
  '<|begin_of_text|>', '<|eot_id|>', '<|start_header_id|>', '<start_of_turn>', '<end_of_turn>', '<think>', '</think>', '<tool_call>', '[INST]', '[/INST]',
  '<|fim_prefix|>', '<|endofprompt|>', '<|User|>', '<|Assistant|>', '<0x0A>', '▁', '▁▁', '##ing', '<extra_id_0>', '<mask>', '<own>', '<Own>', 'ownword', '<br>'];
const blanks = [' ', '  ', '   ', '\t', '\n', '\r\n', '\r', '\n\n', '\u00a0', '\u2003', '\u3000', '\u200b', '\u2028', '\u0085', '\v', '\f', '\ufeff', '\u180e', '\u1680'];
const emoji = ['😀', '👨‍👩‍👧‍👦', '🏳️‍🌈', '👍🏽', '❤️', '🇩🇪🇫🇷', '☕', '🤷🏻‍♀️', '🧑‍💻', '#️⃣', '⌛️', '𝔘𝔫𝔦', '🫠', '🪿', '👩🏾‍🚒'];
// first and last code point of blocks worth having
const blocks = [[0x20, 0x7e], [0xa0, 0xff], [0x100, 0x17f], [0x180, 0x24f], [0x250, 0x2af], [0x2b0, 0x2ff], [0x300, 0x36f], [0x370, 0x3ff], [0x400, 0x4ff],
  [0x530, 0x58f], [0x590, 0x5ff], [0x600, 0x6ff], [0x700, 0x74f], [0x900, 0x97f], [0x980, 0x9ff], [0xb80, 0xbff], [0xe00, 0xe7f], [0xf00, 0xfff], [0x1000, 0x109f],
  [0x10a0, 0x10ff], [0x1100, 0x11ff], [0x1200, 0x137f], [0x13a0, 0x13ff], [0x1780, 0x17ff], [0x1e00, 0x1eff], [0x1f00, 0x1fff], [0x2000, 0x206f], [0x2070, 0x209f],
  [0x20a0, 0x20cf], [0x2100, 0x214f], [0x2150, 0x218f], [0x2190, 0x21ff], [0x2200, 0x22ff], [0x2460, 0x24ff], [0x2500, 0x257f], [0x2600, 0x26ff], [0x2e80, 0x2fdf],
  [0x3000, 0x303f], [0x3040, 0x30ff], [0x3100, 0x31bf], [0x3400, 0x4dbf], [0x4e00, 0x9fff], [0xa000, 0xa4cf], [0xac00, 0xd7af], [0xf900, 0xfaff], [0xfb00, 0xfdff],
  [0xfe00, 0xfe6f], [0xff00, 0xffef], [0x10000, 0x1007f], [0x10400, 0x1044f], [0x1d400, 0x1d7ff], [0x1f300, 0x1f5ff], [0x1f600, 0x1f64f], [0x20000, 0x2a6df], [0xe000, 0xe0ff]];
const char = (b) => String.fromCodePoint(b[0] + rand(b[1] - b[0] + 1));
function anyChar() {
  for (;;) {
    const r = rand(0x30000);
    if (r < 0xd800 || r > 0xdfff) return String.fromCodePoint(r);
  }
}

let files = [...code];
for (const f of sources) files.push(fs.readFileSync(f, 'utf8'));
const prose = sentences.join(' ');
function slice(s, n) {
  const cs = Array.from(s);
  const at = rand(Math.max(1, cs.length - n));
  return cs.slice(at, at + n).join('');
}

const all = ['', ' ', 'a', ' a', 'a ', '\n', '\n\n', ' \n ', "'", "''s", "'S", "'ſ", 'x\n  ', 'x  \n\n  ', '\u0000', '\ufffd', '\u0301', 'e\u0301', 'ﬃ'];
all.push(...sentences, ...code);
const n = (k) => Math.max(1, Math.round(k * scale));
for (const s of sentences) all.push(s.toUpperCase(), s.normalize('NFD'), s.normalize('NFKC'), s.replaceAll(' ', ''), s.replaceAll(' ', '  '));
times(n(400), () => all.push(slice(pick(sentences), 5 + rand(60))));
times(n(300), () => all.push(slice(pick(files), 10 + rand(200))));
times(n(30), () => all.push(slice(pick(files), 1500)));
times(n(60), () => all.push(slice(prose, 300)));
for (const b of blocks) times(n(12), () => all.push(times(1 + rand(24), () => char(b)).join('')));
for (const b of blocks) times(n(6), () => all.push(times(2 + rand(10), () => char(rand(2) ? b : blocks[0]) + (rand(4) ? '' : ' ')).join('')));
times(n(500), () => all.push(times(1 + rand(12), anyChar).join('')));
times(n(300), () => all.push(times(1 + rand(8), () => pick(blanks)).join('') + pick(['', 'x', '.', '7', 'é', '中'])));
times(n(300), () => all.push(times(1 + rand(6), () => pick([pick(blanks), slice(pick(sentences), 1 + rand(6))])).join('')));
times(n(150), () => all.push(times(1 + rand(6), () => pick([pick(emoji), pick(emoji), ' ', 'ok', '!'])).join('')));
times(n(200), () => all.push(times(1 + rand(5), () => pick(["'", '’', ' ', '']) + pick(['s', 't', 'RE', 're', 've', 'm', 'LL', 'll', 'D', 'ſ', 'x', 'K', 'A']) + pick(['', ' ', "'"])).join('')));
times(n(200), () => all.push(times(1 + rand(10), () => pick(['1', '23', '456', '7890', '٣', '½', '.', ',', '-', ' ', 'e', 'x', '²', 'Ⅷ'])).join('')));
times(n(400), () => all.push(times(1 + rand(6), () => pick([pick(specials), pick(specials), pick(blanks), slice(pick(sentences), 1 + rand(8))])).join('')));
times(n(300), () => all.push(times(1 + rand(14), () => pick(['/', '\\', '//', '\n', '\r', '!', '?', '...', '--', '__', '##', '“', '”', '—', '…', '@', '$', ' ', 'a', '1'])).join('')));
times(n(40), () => all.push(pick(['a', 'ab', ' ', '\n', '1', '-', '=', 'あ', '中文', '😀', 'é', 'the ', 'A', '\t', '▁', '!']).repeat(20 + rand(400))));
times(n(100), () => { // words in mixed case, marks inside
  all.push(times(1 + rand(8), () => pick(['ab', 'AB', 'Ab', 'aB', 'ÀB', 'ßa', 'ǅa', 'ʰa', 'ªº', 'a\u0301', 'A\u0301B', '\u0301A', '中A', 'aあ', 'Ა', ' ', "'s"])).join(''));
});
fs.writeFileSync(out, JSON.stringify(all));
console.log(`${out}: ${all.length} strings, ${all.reduce((a, s) => a + Buffer.byteLength(s), 0)} bytes`);
