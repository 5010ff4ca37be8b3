# Makes what the commands of documents take: run folders, results of other tools, logs, datasets. Run in an empty folder
# with spate on the PATH and SPATE_BASE_URL set; the argument is the root of the source tree.
root=$1
quick="--backend vllm --model Qwen/Qwen3-8B --num-prompts 20 --random-input-len 64 --random-output-len 8 --max-concurrency 4"

run() { folder=$1; shift; spate bench $quick --output-dir "$folder" "$@" >"$folder.txt" 2>/dev/null; }
mkdir -p spate-runs
spate bench --compat lmdeploy --backend vllm --dataset-name random --num-prompts 20 --random-input-len 64 --random-output-len 8 --output-dir run >lmdeploy.log 2>/dev/null
run spate-runs/before --metadata build=41
run spate-runs/after --metadata build=42
# Noise is learned from runs that are not INVALID: latencies so long that a busy machine bends them little.
for name in x y z; do
	spate bench --sim --sim-ttft 200ms --sim-itl 100ms --num-prompts 20 --isl 64 --osl 4 --max-concurrency 4 --output-dir "spate-runs/$name" >/dev/null 2>&1
done
for name in 20261115-120000-model-1a2b 20261115-033348-spate-sim-965e; do run "spate-runs/$name"; done
for name in before after main new; do mkdir "$name"; run "$name/1"; done
spate sweep $quick --max-concurrency 1,2 --output-dir spate-runs/20261115-120000-sweep-1a2b3c >/dev/null 2>&1

# Results as other tools leave them: a log of commands and blocks, a page, vLLM's result files.
{
	echo '$ docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.10.1 --model Qwen/Qwen3-8B'
	for c in 1 4; do
		echo "\$ vllm bench serve --backend vllm --model Qwen/Qwen3-8B --dataset-name random --random-input-len 256 --random-output-len 32 --num-prompts 20 --max-concurrency $c"
		spate predict --sim Qwen3-8B@L40S --random-input-len 256 --random-output-len 32 --num-prompts 20 --max-concurrency $c --no-run-folder 2>/dev/null |
			sed -n '/^====.*Result/,/^=*$/p'
	done
} >bench.log
cp bench.log client.log
mkdir logs old-logs
cp bench.log logs/
cp bench.log old-logs/
# The same load on three engines, on two GPUs, and on a server with two settings.
for e in vllm sglang lmdeploy; do sed "s/--backend vllm/--backend $e/; /docker run/d" bench.log >"$e.md"; done
for gpu in A100 H100; do run "spate-runs/$gpu" --metadata campaign=autumn "gpu=$gpu"; done
mkdir sweep
for n in 64 128; do sed "s/^. docker run.*/\$ vllm serve Qwen\/Qwen3-8B --max-num-seqs $n/" bench.log >"sweep/$n.log"; done
for name in results.md old.md new.md; do cp spate-runs/before.txt "$name"; done
spate bench $quick --no-output --save-result --result-dir results >/dev/null 2>&1
spate predict --sim Qwen3-8B@L40S --num-prompts 30 --engine-log server.log --no-run-folder >/dev/null 2>&1

# Datasets, a profile, a suite.
sed 's/}$/, "fate":"ok", "status":200}/' "$root/examples/trace.jsonl" >trace.jsonl # as spate record writes it
gunzip -c "$root/internal/token/tokenizer/testdata/qwen.tokenizer.json.gz" >tokenizer.json
seq 100 300 >lengths.txt
chat() { printf '{"id":"%s","conversations":[{"from":"human","value":"Tell me about the sea and the ships on it."},{"from":"gpt","value":"The sea is wide, and ships are small, and both are old."},{"from":"human","value":"And the wind?"},{"from":"gpt","value":"It drives the one over the other."}]}' "$1"; }
{ printf '['; for i in $(seq 39); do chat "$i"; printf ','; done; chat 40; printf ']\n'; } >sharegpt.json
cp sharegpt.json chats.json
cp "$root"/internal/forecast/profile/data/*3-8*.json my.json
printf 'bench: {num-prompts: 5}\ngrid: {max-concurrency: [1, 2]}\n' >suite.yaml
