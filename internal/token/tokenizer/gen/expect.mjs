// Writes what Hugging Face's own library makes of a corpus.
//
//   npm install --prefix DIR tokenizers@0.23.2
//   node gen/expect.mjs DIR tokenizer.json corpus.json out.json
//
// out: {"vocab": size without added tokens, "ids": [[...], ...] with special
// tokens, "decoded": {index: text}} where text, decoded from the ids without
// special tokens, is not the input.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const [dir, model, corpusFile, out] = process.argv.slice(2);
const require = createRequire(path.resolve(dir) + '/');
const { Tokenizer } = require('tokenizers');
const corpus = JSON.parse(fs.readFileSync(corpusFile, 'utf8'));
const tok = Tokenizer.fromFile(model);
tok.disableTruncation();
tok.disablePadding();
const result = { vocab: tok.getVocabSize(false), ids: [], decoded: {} };
for (const s of corpus) result.ids.push((await tok.encode(s, null, { addSpecialTokens: true })).getIds());
for (const [i, s] of corpus.entries()) {
  const text = await tok.decode(result.ids[i], true);
  if (text !== s) result.decoded[i] = text;
}
fs.writeFileSync(out, JSON.stringify(result));
