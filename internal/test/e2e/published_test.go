package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"spate/internal/cli"
)

// publishedDatasets are lines of vLLM's own documentation, one or more for each kind of dataset, with the number of
// requests they send here. Files that a user has to get are in the working folder, datasets of the hub in its cache.
var publishedDatasets = []struct {
	line string
	n    int // 0: the embedded server has no such endpoint, so the line is planned only
}{
	{`--backend vllm --model m --endpoint /v1/completions --dataset-name sharegpt --dataset-path ShareGPT_V3_unfiltered_cleaned_split.json --num-prompts 10`, 10},
	{`--backend vllm --model m --endpoint /v1/completions --dataset-name custom --dataset-path data.jsonl --custom-skip-chat-template --num-prompts 80 --max-concurrency 1 --temperature=0.3 --top-p=0.75`, 80},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name hf --dataset-path lmarena-ai/VisionArena-Chat --hf-split train --num-prompts 1000`, 1000},
	{`--model m --dataset-name hf --dataset-path likaixin/InstructCoder --num-prompts 2048`, 2048},
	{`--model m --dataset-name spec_bench --dataset-path question.jsonl --num-prompts -1`, 2},
	{`--model m --dataset-name spec_bench --dataset-path question.jsonl --num-prompts -1 --spec-bench-category summarization`, 1},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name hf --dataset-path lmms-lab/LLaVA-OneVision-Data --hf-split train --hf-subset "chart2text(cauldron)" --num-prompts 10`, 10},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name hf --dataset-path Aeala/ShareGPT_Vicuna_unfiltered --hf-split train --num-prompts 10`, 10},
	{`--backend vllm --model m --dataset-name hf --dataset-path AI-MO/aimo-validation-aime --num-prompts 10 --seed 42`, 10},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name hf --dataset-path philschmid/mt-bench --num-prompts 80`, 80},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name hf --dataset-path vdaita/edit_5k_char --num-prompts 90 --blazedit-min-distance 0.01 --blazedit-max-distance 0.99`, 90},
	{`--backend openai-audio --model m --dataset-name hf --dataset-path openslr/librispeech_asr --hf-subset clean --hf-split test --num-prompts 1000`, 0},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name hf --dataset-path likaixin/InstructCoder --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 10 --num-prompts 20`, 20},
	{`--backend openai --model m --dataset-name prefix_repetition --num-prompts 100 --prefix-repetition-prefix-len 512 --prefix-repetition-suffix-len 128 --prefix-repetition-num-prefixes 5 --prefix-repetition-output-len 128`, 100},
	{`--backend openai-chat --model m --endpoint /v1/chat/completions --dataset-name random-mm --num-prompts 20 --max-concurrency 10 --random-prefix-len 25 --random-input-len 300 --random-output-len 40 --random-range-ratio 0.2 --random-mm-base-items-per-request 2 --random-mm-limit-mm-per-prompt '{"image": 3, "video": 0}' --random-mm-bucket-config '{(256, 256, 1): 0.25, (720, 1280, 1): 0.75}' --request-rate inf --ignore-eos --seed 42`, 20},
	{`--backend vllm-rerank --model m --endpoint /v1/rerank --dataset-name random-rerank --random-input-len 512 --num-prompts 10 --random-batch-size 5`, 0},
	{`--backend openai-embeddings --model m --endpoint /v1/embeddings --dataset-name sharegpt --dataset-path ShareGPT_V3_unfiltered_cleaned_split.json`, 0},
	{`--backend vllm --model m --dataset-name burstgpt --dataset-path BurstGPT_without_fails_2.csv --num-prompts 3 --request-rate 10`, 3},
	{`--backend vllm --model m --dataset-name random --random-input-len 1024 --random-output-len 128 --num-prompts 50 --request-rate 25 --burstiness 0.5 --goodput ttft:200 tpot:50`, 50},
}

// hubFiles is a home of the Hugging Face tools with a few rows of each dataset above, by the id's repository.
func hubFiles() map[string]string {
	pixel := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nnot much of a picture"))
	chat := `[{"from": "human", "value": "what does the first chart of this page show"}, {"from": "gpt", "value": "it shows how many there are of each"}]`
	files := map[string]string{}
	for id, f := range map[string][2]string{
		"lmarena-ai/VisionArena-Chat":      {"data/train.jsonl", `{"conversation": [[{"role": "user", "content": "what is it"}]], "images": [{"bytes": "` + pixel + `"}]}`},
		"likaixin/InstructCoder":           {"train.json", `[{"input": "def f(): pass", "instruction": "return one"}, {"input": "", "instruction": "write a loop"}]`},
		"lmms-lab/LLaVA-OneVision-Data":    {"chart2text(cauldron)/train.jsonl", `{"conversations": ` + chat + `, "image": {"bytes": "` + pixel + `"}}`},
		"Aeala/ShareGPT_Vicuna_unfiltered": {"train.jsonl", `{"conversations": ` + chat + `}`},
		"AI-MO/aimo-validation-aime":       {"data/train.jsonl", `{"problem": "how many primes are below ten", "solution": "there are four of them: two, three, five and seven"}`},
		"philschmid/mt-bench":              {"question.jsonl", `{"turns": ["write a letter to a friend", "shorter"]}`},
		"vdaita/edit_5k_char":              {"data/train.jsonl", `{"code": "x = 1", "change_request": "make it two", "norm_distance": 0.5}`},
		"openslr/librispeech_asr":          {"clean/test.jsonl", `{"audio": {"array": [0, 0.5, 0.25, 0], "sampling_rate": 2}}`},
	} {
		repo := "hf/hub/datasets--" + strings.ReplaceAll(id, "/", "--")
		files[repo+"/refs/main"] = "abc"
		files[repo+"/snapshots/abc/"+f[0]] = f[1]
	}
	files["ShareGPT_V3_unfiltered_cleaned_split.json"] = `[{"conversations": ` + chat + `}]`
	files["data.jsonl"] = `{"prompt": "what is the capital of this"}` + "\n" + `{"prompt": "what is it not"}`
	files["question.jsonl"] = `{"category": "summarization", "turns": ["sum it up"]}` + "\n" + `{"category": "math", "turns": ["one and one"]}`
	files["BurstGPT_without_fails_2.csv"] = burstRows
	return files
}

// TestPublishedDatasetLines plans each line as it stands, and runs it, at its own rate, where the embedded server has the endpoint.
func TestPublishedDatasetLines(t *testing.T) {
	t.Parallel()
	slow(t, "runs every published dataset line")
	at := datasetFiles(t, hubFiles())
	addr := simProcess(t, "--ttft", "0", "--itl", "0", "--tokens-per-chunk", "512", "--model", "m")
	env := []string{"HF_HOME=" + at("hf")}
	for i, c := range publishedDatasets {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			words := shellWords(c.line)
			plan := prepare(t, env, append([]string{"bench", "serve", "--dry-run", "--port", "1"}, words...)...)
			plan.cmd.Dir = at("")
			has(t, "plan", plan.want(cli.ExitDone).out, "nothing was sent", "requests           ")
			if c.n == 0 {
				return
			}
			run := prepare(t, env, append([]string{"bench", "serve", "--base-url", "http://" + addr, "--no-output", "--no-store"}, words...)...)
			run.cmd.Dir = at("")
			if _, figures := blockOf(t, run.want(cli.ExitDone).out); figures["Successful requests:"] != fmt.Sprint(c.n) || figures["Failed requests:"] != "0" {
				t.Errorf("%s of %d requests succeeded, %s failed", figures["Successful requests:"], c.n, figures["Failed requests:"])
			}
		})
	}
	missing := prepare(t, env, "bench", "serve", "--dry-run", "--model", "m", "--port", "1", "--dataset-name", "hf", "--dataset-path", "openai/gsm8k").want(cli.ExitUsage)
	has(t, "what to get", missing.stderr, "openai/gsm8k is not on this machine", "hf download --repo-type dataset openai/gsm8k", "puts it into "+at("hf")+"/hub")
}

// shellWords splits a line at spaces outside quotes.
func shellWords(line string) []string {
	var out []string
	quote, word, open := rune(0), "", false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			if open {
				out = append(out, word)
			}
			word, open = "", false
		default:
			word, open = word+string(r), true
		}
	}
	if open {
		out = append(out, word)
	}
	return out
}
