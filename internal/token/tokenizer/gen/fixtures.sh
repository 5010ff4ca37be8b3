#!/bin/sh
# Makes testdata anew: the corpus, the small vocabularies, and what the
# reference implementations say. Needs node, npm, python3 with venv, network.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --silent --no-save --prefix "$work" tokenizers@0.23.2
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet tokenizers==0.23.2 tiktoken==0.14.0 sentencepiece==0.2.2 protobuf==7.36.2
node gen/corpus.mjs 0.2 "$work/corpus.json"
"$work/venv/bin/python" gen/train.py "$work/corpus.json" "$work/out"
for f in "$work"/out/*.tokenizer.json; do
	node gen/expect.mjs "$work" "$f" "$work/corpus.json" "${f%.tokenizer.json}.expected.json"
done
mkdir -p testdata
for f in "$work/corpus.json" "$work"/out/*; do
	gzip -9nc "$f" >"testdata/$(basename "$f").gz"
done
