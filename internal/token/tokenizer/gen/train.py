"""Trains the small vocabularies of testdata, one for each family of tokenizers.

    pip install tokenizers==0.23.2 tiktoken==0.14.0 sentencepiece protobuf
    python gen/train.py corpus.json outdir

The families' normalizers, pre-tokenizers, post-processors and decoders are as
the real files have them; the vocabularies are learnt from our own corpus. Also
writes what tiktoken makes of the corpus, for the rank files.
"""

import base64
import io
import json
import os
import sys

import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

corpus = json.load(open(sys.argv[1]))
out = sys.argv[2]
os.makedirs(out, exist_ok=True)

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = CONTRACTION + "|" + PREFIX + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
CL100K_V2 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
QWEN = CONTRACTION + "|" + PREFIX + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
O200K = (PREFIX + UPPER + "*" + LOWER + "+" + CONTRACTION + "?|" + PREFIX + UPPER + "+" + LOWER + "*" + CONTRACTION
         + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES)
TEKKEN = PREFIX + UPPER + "*" + LOWER + "+|" + PREFIX + UPPER + "+" + LOWER + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
            "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]


def split(expr, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(expr), behavior, invert)


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def special(*names, **kw):
    return [AddedToken(n, special=True, normalized=False, **kw) for n in names]


def save(tok, name, edit=None):
    data = json.loads(tok.to_str())
    if edit:
        edit(data)
    with open(os.path.join(out, name + ".tokenizer.json"), "w") as f:
        json.dump(data, f, ensure_ascii=False)


def byte_level(name, stages, size, specials=(), others=(), normalizer=None, post=None, edit=None):
    tok = Tokenizer(models.BPE())
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = stages[0] if len(stages) == 1 else pre_tokenizers.Sequence(stages)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_special_tokens(special(*specials))
    tok.add_tokens(list(others))
    if post:
        tok.post_processor = post(tok)
    save(tok, name, edit)
    return tok


def template(before, after=""):
    text = " ".join(x for x in (before, "$A", after) if x)
    return lambda tok: processors.TemplateProcessing(
        single=text, special_tokens=[(t, tok.token_to_id(t)) for t in (before, after) if t])


def pair_merges(data):  # the older files have strings, the newer pairs
    data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]


def ignore_merges(data):
    data["model"]["ignore_merges"] = True


byte_level("gpt2", [pre_tokenizers.ByteLevel(add_prefix_space=False)], 900, ["<|endoftext|>"],
           post=lambda tok: processors.ByteLevel(trim_offsets=False), edit=pair_merges)
cl100k = byte_level("llama3", [split(CL100K), bytes_only()], 1200,
                    ["<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>"],
                    post=lambda tok: processors.Sequence([processors.ByteLevel(trim_offsets=False), template("<|begin_of_text|>")(tok)]),
                    edit=ignore_merges)
byte_level("qwen", [split(QWEN), bytes_only()], 1000, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
           [AddedToken(t, normalized=False) for t in ("<tool_call>", "<think>", "</think>")], normalizer=normalizers.NFC())
o200k = byte_level("o200k", [split(O200K, "removed", True), bytes_only()], 1200, ["<|endoftext|>", "<|endofprompt|>"])
byte_level("tekken", [split(TEKKEN), bytes_only()], 900, ["<s>", "</s>", "[INST]", "[/INST]"], post=template("<s>"), edit=ignore_merges)
byte_level("deepseek", [split(e) for e in DEEPSEEK] + [bytes_only()], 1000, ["<｜begin▁of▁sentence｜>"],
           [AddedToken("<|User|>", normalized=True), AddedToken("<think>", normalized=True)], normalizer=normalizers.Sequence([]))
# A pattern without a scanner, and a prefix space: the general way.
byte_level("digits", [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=True)], 700,
           ["<|endoftext|>"], [AddedToken("ownword", single_word=True, normalized=False), AddedToken("<own>", lstrip=True, rstrip=True)],
           post=lambda tok: processors.RobertaProcessing(("</s>", 5), ("<s>", 6)))
byte_level("regex", [split(r"[a-z]+(?=[A-Z])|\s*\p{P}+|(?<=\d)\.", "contiguous"), split(" ?[0-9]+", "merged_with_next"),
                     split("_+", "merged_with_previous"), bytes_only()], 700, ["<|endoftext|>"],
           normalizer=normalizers.Sequence([normalizers.Replace(Regex(r"[\t\f]+"), " "), normalizers.NFKD(), normalizers.StripAccents()]))


def characters():
    """A vocabulary of frequent words and merges the way SentencePiece learns it."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1100, limit_alphabet=350, show_progress=False))
    return json.loads(tok.model.__getstate__())


learnt = characters()
MARK = "\u2581"


def sentence_piece(name, normalizer, stages, decoder, specials, post=None, plain=(), fuse=True, fallback=True, more=()):
    names = list(specials)
    if fallback:
        names += ["<0x%02X>" % b for b in range(256)]
    names += list(plain)
    merges = [tuple(m) for m in learnt["merges"]] + list(more)
    have = set(names)
    for t in sorted(learnt["vocab"], key=learnt["vocab"].get):
        if t not in have:
            names.append(t)
            have.add(t)
    for a, b in more:
        if a + b not in have:
            names.append(a + b)
            have.add(a + b)
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(names)}, merges, unk_token="<unk>", fuse_unk=fuse, byte_fallback=fallback))
    if normalizer:
        tok.normalizer = normalizer
    if stages:
        tok.pre_tokenizer = stages
    tok.decoder = decoder
    tok.add_special_tokens(special(*specials))
    tok.add_tokens([AddedToken(t, normalized=False) for t in plain])
    if post:
        tok.post_processor = post(tok)
    save(tok, name)


to_mark = normalizers.Replace(" ", MARK)
pieces = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
sentence_piece("llama2", normalizers.Sequence([normalizers.Prepend(MARK), to_mark]), None,
               decoders.Sequence(pieces + [decoders.Strip(" ", 1, 0)]), ["<unk>", "<s>", "</s>"], template("<s>"))
sentence_piece("gemma", to_mark, pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence(pieces),
               ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], template("<bos>"),
               plain=["\n\n", "\n\n\n", MARK * 2, MARK * 3, "<br>"])
# Merges over the marks: such a text cannot be cut into words.
sentence_piece("metaspace", None, pre_tokenizers.Metaspace(MARK, "first", split=False), decoders.Metaspace(MARK, "first", split=False),
               ["<unk>", "<s>", "</s>"], template("<s>", "</s>"), fuse=False, fallback=False,
               more=[("e", MARK), ("s", MARK), ("n", MARK), (",", MARK)])


def wordpiece():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=1200, limit_alphabet=300, special_tokens=names, show_progress=False))
    tok.post_processor = template("[CLS]", "[SEP]")(tok)
    save(tok, "bert")
    tok.normalizer = normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous")])
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tok.decoder = decoders.WordPiece("##", False)
    save(tok, "bertcased")


wordpiece()

# A character map of our own: what SentencePiece compiles, without its size.
RULES = {"\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\u00bd": "1/2", "\u00b2": "2", "\u2460": "1", "\u2461": "2",
         "\u212b": "\u00c5", "\u2126": "\u03a9", "\u212a": "K", "\u200b": "", "\u200d": "", "\ufeff": "", "\u0301": "",
         "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "e\u0301": "\u00e9", "u\u0308": "\u00fc",
         "o\u0308": "\u00f6", "a\u0308": "\u00e4", "\u2026": "...", "\u30ab": "\u304b", "\u30ab\u3099": "\u304c",
         "\uff21": "A", "\uff01": "!", "\uff0c": ",", "\u2764\ufe0f": "<3", "\U0001f44d": "+1", "\u01c5": "Dz"}


def charsmap():
    rules = os.path.join(out, "rules.tsv")
    with open(rules, "w") as f:
        for a, b in RULES.items():
            f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
    model = io.BytesIO()
    text = [s for s in corpus if s.strip() and s.isascii() and s.isprintable()]  # only the map is wanted
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=model, vocab_size=200, model_type="unigram",
                                             normalization_rule_tsv=rules, hard_vocab_limit=False, character_coverage=1.0, minloglevel=2)
    os.remove(rules)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def unigram(name, stages, decoder, fallback, normalizer, post):
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizer
    tok.pre_tokenizer = stages
    names = ["<pad>", "</s>", "<unk>"]
    # The prose and code only: the rest has more characters than a small vocabulary.
    tok.train_from_iterator(corpus[:150], trainers.UnigramTrainer(vocab_size=1200, unk_token="<unk>", special_tokens=names, show_progress=False))
    model = json.loads(tok.model.__getstate__())
    vocab = [(t, s) for t, s in model["vocab"]]
    # Single characters cover all of the training text; leave some unknown.
    vocab = [v for i, v in enumerate(vocab) if i < 3 or len(v[0]) > 1 or ord(v[0]) < 0x250 or v[0] == MARK or i % 2]
    if fallback:
        vocab += [("<0x%02X>" % b, -20.0) for b in range(256)]
    tok.model = models.Unigram(vocab, unk_id=2, byte_fallback=fallback)
    tok.decoder = decoder
    tok.add_special_tokens(special(*names))
    tok.add_tokens([AddedToken("<Own>", normalized=True), AddedToken("<extra_id_0>", rstrip=True, normalized=False)])
    tok.post_processor = post(tok)
    save(tok, name)


meta = pre_tokenizers.Metaspace(MARK, "always")
unigram("t5", pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta]), decoders.Metaspace(MARK, "always"), False,
        normalizers.Precompiled(charsmap()), template("", "</s>"))
unigram("unigram", meta, decoders.Sequence(pieces + [decoders.Strip(" ", 1, 0)]), True,
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase()]), template("", "</s>"))


def ranks(tok, name, pattern, specials):
    """A rank file of a trained vocabulary, and tiktoken's opinion of the corpus."""
    unicode_of = {}
    n = 0
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b:
            unicode_of[chr(b)] = b
        else:
            unicode_of[chr(256 + n)] = b
            n += 1
    model = json.loads(tok.to_str())["model"]
    order = [bytes([b]) for b in range(256)]
    for a, b in model["merges"]:
        t = bytes(unicode_of[c] for c in a + b)
        if t not in order:
            order.append(t)
    enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks={t: i for i, t in enumerate(order)}, special_tokens=specials)
    with open(os.path.join(out, name + ".tiktoken"), "w") as f:
        for i, t in enumerate(order):
            f.write(base64.b64encode(t).decode() + " %d\n" % i)
    result = {"vocab": len(order), "ids": [], "decoded": {}}
    for i, s in enumerate(corpus):
        ids = enc.encode(s, allowed_special="all")
        result["ids"].append(ids)
        text = enc.decode([x for x in ids if x not in specials.values()])
        if text != s:
            result["decoded"][i] = text
    with open(os.path.join(out, name + ".expected.json"), "w") as f:
        json.dump(result, f)


ranks(cl100k, "cl100k_base", CL100K_V2, {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259,
                                          "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276})
ranks(o200k, "o200k_base", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018})
