package flags

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"spate/internal/load/workload"
	"spate/internal/settings/config"
)

// datasetFlags says what prompts are made of.
func datasetFlags(b *config.Bench) []Def {
	d := &b.Dataset
	defs := []Def{
		{
			Name: "seed", Group: GroupLoad, VLLM: true, Main: true, Default: "0", value: integer(&b.Load.Seed),
			Help: "seed of prompts, lengths and arrivals: the same seed gives the same run on every machine", Also: also("random-seed"),
		},
		{
			Name: "num-prompts", Group: GroupLoad, VLLM: true, Main: true, Default: "1000", value: integer(&b.Load.NumPrompts),
			Help: "requests to send; without it, --duration or --stages alone bound the run; 0 is every row of a dataset of rows",
			Also: also("request-count", "num-requests", "number", "max-requests", "num-samples"),
		},
		{
			Name: "dataset-name", Group: GroupDataset, VLLM: true, Main: true, Default: "random", value: str(&d.Name),
			Choices: datasetNames(), Words: map[string]string{"custom_mm": config.DatasetImages},
			Help: "kind of prompts", Meta: "NAME", Also: also("public-dataset"),
		},
		{
			Name: "dataset-path", Group: GroupDataset, VLLM: true, Main: true, value: str(&d.Path), Meta: "FILE",
			Help: "file the prompts come from: ShareGPT JSON, verse lines for sonnet, JSONL for custom and traces, CSV for burstgpt",
			Also: append(also("input-file", "data"), Alias{Name: "dataset", To: shareGPTPath}),
		},
		{Name: "no-stream", Group: GroupDataset, VLLM: true, value: toggle(&d.NoStream), Help: "shuffle a Hugging Face dataset as a whole, not within a buffer of 1000 rows"},
		{
			Name: "no-oversample", Group: GroupDataset, VLLM: true, value: toggle(&d.NoOversample),
			Help: "send fewer requests rather than repeat rows when the file is short",
		},
		{Name: "disable-shuffle", Group: GroupDataset, VLLM: true, value: toggle(&d.DisableShuffle), Help: "keep the file's order"},
		{
			Name: "skip-chat-template", Group: GroupDataset, VLLM: true, value: toggle(&d.SkipChatTemplate),
			Help: "send custom prompts as they stand", Also: also("custom-skip-chat-template"),
		},
		{
			Name: "enable-multimodal-chat", Group: GroupDataset, VLLM: true, value: toggle(&d.MultimodalChat),
			Help: "build chat messages in the dataset; images always go that way here, audio where the backend speaks chat",
		},
		{
			Name: "input-len", Group: GroupDataset, VLLM: true, Main: true, value: spread(&d.InputLen, &d.InputDist), Meta: "TOKENS",
			Help: "prompt length, whichever dataset makes prompts of a length; random ones also by a law: normal(480,240), lognormal(480,240), uniform(100,500), exponential(480), empirical(FILE)",
			Also: also("isl"),
		},
		{
			Name: "output-len", Group: GroupDataset, VLLM: true, Main: true, value: spread(&d.OutputLen, &d.OutputDist), Meta: "TOKENS",
			Help: "output length, whichever the dataset; a law as for --input-len", Also: also("osl"),
		},
		{Name: "isl-stddev", Group: GroupDataset, value: finite(&d.InputStd), Default: "0.0", Meta: "TOKENS", Help: "standard deviation of random prompt lengths around --input-len"},
		{Name: "osl-stddev", Group: GroupDataset, value: finite(&d.OutputStd), Default: "0.0", Meta: "TOKENS", Help: "standard deviation of random output lengths around --output-len"},
		{
			Name: "seq-dist", Group: GroupDataset, value: str(&d.Joint), Meta: "IN,OUT:WEIGHT;...", Also: also("sequence-distribution"),
			Help: "pairs of random lengths and their weights: 128,64:25;512,128:75; 128|20,64|10:25 spreads them",
		},
	}
	defs = append(defs, randomFlags(d)...)
	defs = append(defs, fileFlags(d)...)
	defs = append(defs, groupFlags(d, &b.Target)...)
	defs = append(defs, traceFlags(d)...)
	defs = append(defs, hubFlags(d)...)
	defs = append(defs, mediaFlags(d)...)
	return append(defs, talkFlags(d)...)
}

// datasetNames are all there are, the everyday ones first.
func datasetNames() []string {
	out := []string{config.DatasetRandom, config.DatasetShareGPT, config.DatasetSonnet, config.DatasetCustom}
	for _, d := range workload.Datasets() {
		if !slices.Contains(out, d.Name) {
			out = append(out, d.Name)
		}
	}
	return out
}

// shareGPTPath reads the oldest scripts' --dataset: a ShareGPT file. A dataset's name given there is
// a slip of its own.
func shareGPTPath(word string) ([]target, error) {
	if !strings.ContainsAny(word, "./") {
		return nil, errors.New("is the path of a ShareGPT file in older scripts; use --dataset-name to choose a dataset")
	}
	return []target{{flag: "dataset-path", word: word}, {flag: "dataset-name", word: config.DatasetShareGPT}}, nil
}

func randomFlags(d *config.Dataset) []Def {
	r := &d.Random
	return []Def{
		{Name: "random-input-len", Group: GroupDataset, VLLM: true, Main: true, Default: "1024", value: integer(&r.InputLen), Meta: "TOKENS", Help: "prompt length of random prompts"},
		{Name: "random-output-len", Group: GroupDataset, VLLM: true, Main: true, Default: "128", value: integer(&r.OutputLen), Meta: "TOKENS", Help: "output length of random prompts"},
		{
			Name: "random-range-ratio", Group: GroupDataset, VLLM: true, Main: true, Default: "0.0", value: ratio(&r.RangeRatio),
			Help: `spread of random lengths: r draws from [len*(1-r), len*(1+r)]; {"input":r1,"output":r2} sets them apart`,
		},
		{
			Name: "range-ratio-meaning", Group: GroupDataset, Default: "auto", value: enum(&r.Meaning),
			Choices: []string{"auto", "head", "v10", "v6"},
			Help:    "whose rules random lengths follow: head as above; v10 the same with vLLM 0.10's rounding; v6 [len*r, len], as before vLLM 0.8.4; auto is head, and reads a ratio of 1, which head refuses, as fixed lengths",
		},
		{
			Name: "random-prefix-len", Group: GroupDataset, VLLM: true, Default: "0", value: integer(&r.PrefixLen), Meta: "TOKENS",
			Help: "tokens every random prompt begins with, before its own", Also: also("prefix-prompt-length", "shared-system-prompt-length"),
		},
		{Name: "random-batch-size", Group: GroupDataset, VLLM: true, Default: "1", value: integer(&r.BatchSize), Help: "random prompts in each request to an embedding server; documents in each of random-rerank"},
		{Name: "no-reranker", Group: GroupDataset, VLLM: true, value: toggle(&r.NoReranker), Help: "random-rerank for a model that embeds query and documents apart"},
		{
			Name: "salt", Group: GroupDataset, Main: true, value: str(&d.Salt),
			Help: "text put before every prompt, so that a repeated run does not measure the server's prefix cache; auto makes a new one each run",
		},
	}
}

func fileFlags(d *config.Dataset) []Def {
	return []Def{
		{Name: "sonnet-input-len", Group: GroupDataset, VLLM: true, Default: "550", value: integer(&d.Sonnet.InputLen), Meta: "TOKENS", Help: "prompt length of sonnet"},
		{Name: "sonnet-output-len", Group: GroupDataset, VLLM: true, Default: "150", value: integer(&d.Sonnet.OutputLen), Meta: "TOKENS", Help: "output length of sonnet"},
		{Name: "sonnet-prefix-len", Group: GroupDataset, VLLM: true, Default: "200", value: integer(&d.Sonnet.PrefixLen), Meta: "TOKENS", Help: "common beginning of sonnet prompts"},
		{Name: "sharegpt-output-len", Group: GroupDataset, VLLM: true, value: maybeInt(&d.ShareGPT.OutputLen), Meta: "TOKENS", Help: "output length of sharegpt; without it, as long as the recorded answer"},
		{Name: "custom-output-len", Group: GroupDataset, VLLM: true, Default: "256", value: integer(&d.Custom.OutputLen), Meta: "TOKENS", Help: "output length of custom; -1 takes output_tokens from the row"},
		{Name: "custom-ensure-client-side-data", Group: GroupDataset, VLLM: true, value: toggle(&d.Custom.EnsureClientSideData), Help: "send the images of custom_image as data, not by their address"},
		{Name: "allowed-local-media-path", Group: GroupDataset, value: str(&d.MediaPath), Meta: "DIR", Help: "folders, with commas between them, whose pictures, videos and sounds rows may name beside those in the dataset's own folder"},
	}
}

// groupFlags describe datasets whose prompts begin alike, and files of questions.
func groupFlags(d *config.Dataset, t *config.Target) []Def {
	spec, speed, prefix, gsp := &d.SpecBench, &d.SpeedBench, &d.PrefixRepetition, &d.Shared
	defs := []Def{
		{Name: "spec-bench-output-len", Default: "256", VLLM: true, value: integer(&spec.OutputLen), Meta: "TOKENS", Help: "output length of spec_bench"},
		{Name: "spec-bench-category", VLLM: true, value: str(&spec.Category), Help: "send only spec_bench's questions of this category"},
		{
			Name: "speed-bench-dataset-subset", Default: "qualitative", VLLM: true, value: str(&speed.Subset), Help: "which of speed_bench's files",
			Choices: []string{"qualitative", "throughput_1k", "throughput_2k", "throughput_8k", "throughput_16k", "throughput_32k"},
		},
		{Name: "speed-bench-output-len", Default: "4096", VLLM: true, value: integer(&speed.OutputLen), Meta: "TOKENS", Help: "output length of speed_bench"},
		{Name: "speed-bench-category", VLLM: true, value: str(&speed.Category), Help: "send only speed_bench's messages of this category"},
		{Name: "prefix-repetition-prefix-len", Default: "256", VLLM: true, value: integer(&prefix.PrefixLen), Meta: "TOKENS", Help: "length of each prefix"},
		{Name: "prefix-repetition-suffix-len", Default: "256", VLLM: true, value: integer(&prefix.SuffixLen), Meta: "TOKENS", Help: "length of what follows a prefix"},
		{Name: "prefix-repetition-num-prefixes", Default: "10", VLLM: true, value: integer(&prefix.NumPrefixes), Help: "how many prefixes there are"},
		{Name: "prefix-repetition-output-len", Default: "128", VLLM: true, value: integer(&prefix.OutputLen), Meta: "TOKENS", Help: "output length of prefix_repetition"},
		{Name: "gsp-num-groups", Default: "64", value: integer(&gsp.Groups), Help: "system prompts of generated-shared-prefix"},
		{Name: "gsp-prompts-per-group", Default: "16", value: integer(&gsp.PerGroup), Help: "questions to each of them"},
		{Name: "gsp-system-prompt-len", Default: "2048", value: integer(&gsp.SystemLen), Meta: "TOKENS", Help: "length of a system prompt"},
		{Name: "gsp-question-len", Default: "128", value: integer(&gsp.QuestionLen), Meta: "TOKENS", Help: "length of a question"},
		{Name: "gsp-output-len", Default: "256", value: integer(&gsp.OutputLen), Meta: "TOKENS", Help: "output length of generated-shared-prefix"},
		{Name: "gsp-range-ratio", Default: "1.0", value: finite(&gsp.RangeRatio), Help: "lengths of generated-shared-prefix lie between this share of what was asked and all of it"},
		{
			Name: "gsp-send-routing-key", value: routingKey(&t.Headers),
			Help: "send each request's group in the header x-smg-routing-key; --header NAME={group} has another name for it, and {session} stands for a conversation",
		},
		{Name: "gsp-fast-prepare", value: toggle(new(bool)), Help: "accepted for scripts; prompts are made while the run goes on"},
		{Name: "gsp-ordered", value: toggle(&gsp.Ordered), Help: "send group after group instead of shuffled"},
		{Name: "gsp-group-distribution", Default: "uniform", value: str(&gsp.Distribution), Choices: []string{"uniform", "zipf"}, Help: "how often groups are asked"},
		{Name: "gsp-zipf-alpha", Default: "1.0", value: finite(&gsp.ZipfAlpha), Help: "with zipf, the group of rank r is asked r^-alpha as often as the first"},
	}
	for i := range defs {
		defs[i].Group = GroupDataset
	}
	return defs
}

// traceFlags describe how traces are read and followed.
func traceFlags(d *config.Dataset) []Def {
	trace, replay := &d.TimedTrace, &d.Replay
	defs := []Def{
		{Name: "timed-trace-chunk-hash-size", Default: "16", VLLM: true, value: integer(&trace.ChunkHashSize), Meta: "TOKENS", Help: "tokens a block id of a trace stands for; mooncake: 512"},
		{Name: "timed-trace-sec-multiplier", Default: "1.0", VLLM: true, value: finite(&trace.SecMultiplier), Help: "seconds per unit of a trace's timestamps; mooncake: 0.001"},
		{Name: "timed-trace-label-timestamp", Default: "timestamp", VLLM: true, value: str(&trace.LabelTimestamp), Help: "name of a trace's time column"},
		{Name: "timed-trace-label-input-length", Default: "input_length", VLLM: true, value: str(&trace.LabelInput), Help: "name of its input length column"},
		{Name: "timed-trace-label-output-length", Default: "output_length", VLLM: true, value: str(&trace.LabelOutput), Help: "name of its output length column"},
		{Name: "timed-trace-label-hash-ids", Default: "hash_ids", VLLM: true, value: str(&trace.LabelHashIDs), Help: "name of its column of block ids"},
		{
			Name: "trace-speed", Default: "1.0", value: finite(&replay.Speed), Help: "how many times as fast as recorded a trace is sent; 0.5 takes twice as long",
			Also: []Alias{{Name: "mooncake-slowdown-factor", To: slowdown}},
		},
		{Name: "trace-max-gap", value: duration(&replay.MaxGap), Help: "no pause of a trace is longer than this, after --trace-speed"},
	}
	for i := range defs {
		defs[i].Group = GroupDataset
	}
	return defs
}

// hubFlags describe which part of a Hugging Face dataset is sent.
func hubFlags(d *config.Dataset) []Def {
	hf := &d.HF
	defs := []Def{
		{Name: "hf-subset", value: str(&hf.Subset), Help: "subset of the dataset"},
		{Name: "hf-split", value: str(&hf.Split), Help: "split of the dataset, such as train or test"},
		{Name: "hf-name", value: str(&hf.Name), Help: "the dataset's id on the hub, which decides how its rows are read when the path does not say it"},
		{Name: "hf-output-len", value: maybeInt(&hf.OutputLen), Meta: "TOKENS", Help: "output length of hf; without it, the dataset's own"},
		{Name: "blazedit-min-distance", Default: "0.0", value: finite(&hf.BlazeditMin), Help: "least edit distance of Blazedit's rows"},
		{Name: "blazedit-max-distance", Default: "1.0", value: finite(&hf.BlazeditMax), Help: "greatest edit distance of them"},
		{Name: "asr-min-audio-len-sec", Default: "0.0", value: float(&hf.ASRMinSec), Meta: "SEC", Help: "leave out recordings of speech datasets that are shorter"},
		{Name: "asr-max-audio-len-sec", Default: "inf", value: float(&hf.ASRMaxSec), Meta: "SEC", Help: "leave out those that are longer"},
		{Name: "bfcl-categories", value: str(&hf.BFCLCategories), Help: "categories of function calls, such as simple,multiple"},
	}
	for i := range defs {
		defs[i].Group, defs[i].VLLM = GroupDataset, true
	}
	return defs
}

// talkFlags describe conversations.
func talkFlags(d *config.Dataset) []Def {
	t := &d.Talk
	defs := []Def{
		{Name: "multi-turn", value: toggle(&t.On), Help: "conversations: the same as --dataset-name multi-turn, from --dataset-path where one is given"},
		{
			Name: "multi-turn-turns", Default: "4", value: law(&t.Turns), Meta: "COUNT",
			Help: "turns of made-up conversations of multi-turn, and where given of generated-shared-prefix; a law as for --input-len", Also: also("conversation-turn-mean", "gsp-num-turns"),
		},
		{
			Name: "multi-turn-next-len", Default: "64", value: law(&t.NextLen), Meta: "TOKENS",
			Help: "length of what a user says after the first turn, which has --random-input-len; --random-prefix-len is a system prompt all share",
		},
		{
			Name: "think-time", value: thinkTime(&t.Think), Meta: "TIME",
			Help: "time between an answer and the next turn: 2s, or a law in seconds such as exponential(2); without it, what the file says, or none",
			Also: also("conversation-turn-delay"),
		},
		{Name: "max-turns", Default: "0", value: integer(&t.MaxTurns), Help: "end conversations after this many turns; 0 is never", Also: also("agentic-max-turns")},
	}
	for i := range defs {
		defs[i].Group = GroupDataset
	}
	return defs
}

// mediaFlags describe the pictures of random-mm.
func mediaFlags(d *config.Dataset) []Def {
	mm := &d.RandomMM
	defs := []Def{
		{Name: "random-mm-base-items-per-request", Default: "1", value: integer(&mm.BaseItems), Help: "pictures and videos in each request of random-mm"},
		{Name: "random-mm-num-mm-items-range-ratio", Default: "0.0", value: finite(&mm.ItemsRatio), Help: "spread of their number: r draws from [n*(1-r), n*(1+r)]"},
		{Name: "random-mm-limit-mm-per-prompt", Default: `{"image": 255, "video": 1}`, value: object(&mm.LimitPerPrompt), Help: "most of each kind"},
		{
			Name: "random-mm-bucket-config", Default: "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}",
			value: literal(&mm.Buckets), Help: "height, width and frames of pictures, and their share; several frames are a video", Meta: "DICT",
		},
	}
	for i := range defs {
		defs[i].Group, defs[i].VLLM = GroupDataset, true
	}
	return defs
}

// routingKey is a switch that adds SGLang's header.
func routingKey(headers *[]config.Header) *value {
	const name = "x-smg-routing-key"
	on := false
	v := toggle(&on)
	set := v.set
	v.set = func(s string) error {
		if err := set(s); err != nil {
			return err
		}
		*headers = slices.DeleteFunc(*headers, func(h config.Header) bool { return h.Name == name })
		if on {
			*headers = append(*headers, config.Header{Name: name, Value: "{group}"})
		}
		return nil
	}
	return v
}

// slowdown reads SGLang's factor, the inverse of a speed.
func slowdown(word string) ([]target, error) {
	f, err := readFloat(word)
	if err != nil || !(f > 0) {
		return nil, errors.New("is not a factor above 0")
	}
	return []target{{flag: "trace-speed", word: strconv.FormatFloat(1/f, 'g', -1, 64)}}, nil
}
