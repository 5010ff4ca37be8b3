// Writes a real tiktoken rank file and what tiktoken makes of a corpus.
//
//   npm install --prefix DIR tiktoken@1.0.22
//   node gen/ranks.mjs DIR cl100k_base corpus.json outdir
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const [dir, name, corpusFile, out] = process.argv.slice(2);
const require = createRequire(path.resolve(dir) + '/');
const { Tiktoken } = require('tiktoken');
const data = require(`tiktoken/encoders/${name}.json`);

// Lines of "! first-rank token token ...".
const lines = [];
for (const line of data.bpe_ranks.split('\n')) {
  const [, first, ...tokens] = line.split(' ');
  tokens.forEach((t, i) => lines.push(`${t} ${Number(first) + i}`));
}
fs.writeFileSync(path.join(out, `${name}.tiktoken`), lines.join('\n') + '\n');

// The npm package has cl100k's pattern of old; the Python one, which people
// use, cuts white space at the end of a text differently.
const pattern = name === 'cl100k_base'
  ? String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
  : data.pat_str;
const enc = new Tiktoken(data.bpe_ranks, data.special_tokens, pattern);
const special = new Set(Object.values(data.special_tokens));
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const result = { vocab: lines.length, ids: [], decoded: {} };
JSON.parse(fs.readFileSync(corpusFile, 'utf8')).forEach((s, i) => {
  const ids = Array.from(enc.encode(s, 'all'));
  result.ids.push(ids);
  const text = utf8.decode(enc.decode(Uint32Array.from(ids.filter((id) => !special.has(id)))));
  if (text !== s) result.decoded[i] = text;
});
fs.writeFileSync(path.join(out, `${name}.expected.json`), JSON.stringify(result));
