package flags

import (
	"spate/internal/settings/config"
)

// outputFlags says what is written and shown.
func outputFlags(b *config.Bench) []Def {
	o := &b.Output
	return []Def{
		{
			Name: "compat", Group: GroupOutput, Main: true, value: str(&b.Output.Compat), Meta: "TOOL",
			Choices: []string{"vllm", "vllm-0.10", "vllm-0.6", "sglang", "lmdeploy", "backprop"},
			Help:    "accept that tool's arguments, and print its result block by its definitions (docs/dialects.md)",
		},
		{
			Name: "disable-tqdm", Group: GroupOutput, VLLM: true, value: toggle(&o.DisableTQDM),
			Help: "show no progress", Also: also("disable-progress", "no-console"),
		},
		{Name: "save-result", Group: GroupOutput, VLLM: true, Main: true, value: toggle(&o.SaveResult), Help: "also write vLLM's result JSON, under vLLM's file name"},
		{Name: "save-detailed", Group: GroupOutput, VLLM: true, Main: true, value: toggle(&o.SaveDetailed), Help: "write the arrays of single requests into that file, too"},
		{Name: "append-result", Group: GroupOutput, VLLM: true, value: toggle(&o.AppendResult), Help: "append to the result file, one JSON a line"},
		{Name: "metadata", Group: GroupOutput, VLLM: true, value: metadata(&o.Metadata), Help: "fields to put into the result JSON; several may follow"},
		{Name: "result-dir", Group: GroupOutput, VLLM: true, Main: true, value: str(&o.ResultDir), Meta: "DIR", Help: "folder of vLLM's result JSON"},
		{Name: "result-filename", Group: GroupOutput, VLLM: true, Main: true, value: str(&o.ResultFilename), Meta: "FILE", Help: "name of vLLM's result JSON"},
		{
			Name: "percentile-metrics", Group: GroupOutput, VLLM: true, Main: true, value: metrics(&o.PercentileMetrics),
			Help: "metrics to report, of ttft,tpot,itl,e2el; the first three when not given",
		},
		{
			Name: "metric-percentiles", Group: GroupOutput, VLLM: true, Main: true, Default: "99", value: percentiles(&o.Percentiles),
			Help: "percentiles to report, such as 50,90,99",
		},
		{Name: "plot-timeline", Group: GroupOutput, VLLM: true, value: toggle(&o.PlotTimeline), Help: "draw requests over time"},
		{
			Name: "timeline-itl-thresholds", Group: GroupOutput, VLLM: true, Default: "25,50", value: thresholds(&o.TimelineITL),
			Help: "bounds of its colours in ms",
		},
		{Name: "plot-dataset-stats", Group: GroupOutput, VLLM: true, value: toggle(&o.PlotDatasetStats), Help: "draw the dataset's lengths"},
		{
			Name: "output-dir", Group: GroupOutput, Main: true, value: str(&o.OutputDir), Meta: "DIR",
			Help: "run folder with result.json, records.jsonl and everything needed to judge them; a dated one when not given",
			Also: also("artifact-dir"),
		},
		{Name: "no-output", Group: GroupOutput, value: toggle(&o.NoOutput), Help: "write no run folder"},
		{
			Name: "store", Group: GroupOutput, value: str(&o.Store), Meta: "PLACE",
			Help: "store the run is put into: a folder, a file or a postgres:// URL, or none; ~/.local/share/spate when not given",
		},
		{Name: "no-store", Group: GroupOutput, value: toggle(&o.NoStore), Help: "do not put the run into a store"},
		{
			Name: "ui", Group: GroupOutput, Default: "auto", value: enum(&o.UI), Choices: []string{"auto", "live", "plain", "none"},
			Words: map[string]string{"dashboard": "live", "simple": "plain"},
			Help:  "progress: a live view, plain lines, or none; auto is live on a terminal (dashboard and simple are live and plain)",
		},
		{Name: "details", Group: GroupOutput, Main: true, value: toggle(&o.Details), Help: "print all findings below the block, not only those that fit a screen"},
		{
			Name: "quiet", Group: GroupOutput, Main: true, value: toggle(&o.Quiet),
			Help: "print only the result block; on standard error, print only errors and a verdict other than VALID",
		},
		{
			Name: "dry-run", Group: GroupOutput, Main: true, value: toggle(&o.DryRun),
			Help: "print the plan (requests, tokens, arrivals, expected time) and send nothing",
		},
	}
}

// checkFlags says what the run is judged by.
func checkFlags(b *config.Bench) []Def {
	c := &b.Check
	return []Def{
		{
			Name: "goodput", Group: GroupCheck, VLLM: true, Main: true, value: limits(&c.Goodput),
			Help: "a request is good when it keeps these bounds in ms: --goodput ttft:200 tpot:50 e2el:5000; other figures of single requests work too, speeds in tokens/s (docs/metrics.md)",
			Also: []Alias{{Name: "ttft-sla-ms", To: ttftBound}},
		},
		{
			Name: "slo", Group: GroupCheck, Main: true, value: objectives(&c.SLO),
			Help: "conditions on the whole run: --slo 'p99_ttft<500ms,error_rate<1%'; exit code 3 when one is not met",
		},
		{Name: "strict", Group: GroupCheck, Main: true, value: toggle(&c.Strict), Help: "exit code 3 when the verdict on the run is INVALID"},
		{
			Name: "steady-state-threshold", Group: GroupCheck, Default: "0.95", value: finite(&c.SteadyThreshold),
			Help: "share of --max-concurrency that counts as full load",
		},
		{
			Name: "steady-state-min-window", Group: GroupCheck, Default: "0", value: finite(&c.SteadyMinWindow), Meta: "SEC",
			Help: "shortest steady window that raises no warning; 0 is the larger of 10 s and a tenth of the run",
		},
		{Name: "no-steady-state", Group: GroupCheck, value: toggle(&c.NoSteadyState), Help: "do not look for a steady-state window"},
	}
}

func ttftBound(word string) ([]target, error) {
	return []target{{flag: "goodput", word: "ttft:" + word}}, nil
}

// simFlags describes the embedded server.
func simFlags(b *config.Bench) []Def {
	s := &b.Sim
	return []Def{
		{
			Name: "sim", Group: GroupSim, Main: true, value: optional(&s.Enabled, &s.Profile, "PROFILE"),
			Help: "simulated engine to start for the run and measure: model@gpu, a name from spate sim --list-profiles, or timetable; " +
				"the times of a timetable below also choose one",
		},
		{Name: "sim-ttft", Group: GroupSim, Default: "50ms", value: duration(&s.TTFT), Help: "time to first token of the timetable"},
		{Name: "sim-itl", Group: GroupSim, Default: "10ms", value: duration(&s.ITL), Help: "time between chunks of the timetable"},
		{Name: "sim-tokens-per-chunk", Group: GroupSim, Default: "1", value: integer(&s.TokensPerChunk), Help: "tokens in each chunk"},
		{Name: "sim-jitter", Group: GroupSim, Default: "0.0", value: finite(&s.Jitter), Help: "vary each wait by up to this share"},
		{Name: "sim-ttft-spread", Group: GroupSim, value: duration(&s.TTFTSpread), Help: "random time that is added to the time to first token, up to this"},
		{Name: "sim-prefill", Group: GroupSim, value: duration(&s.Prefill), Help: "time that is added to the time to first token for each 1,000 prompt tokens"},
		{Name: "sim-output-len", Group: GroupSim, Default: "0", value: integer(&s.OutputLen), Meta: "TOKENS", Help: "answers end by themselves after this many tokens; 0 is never"},
		{Name: "sim-output-vary", Group: GroupSim, Default: "0.0", value: finite(&s.OutputVary), Help: "vary that length by up to this share"},
		{Name: "sim-max-running", Group: GroupSim, Default: "0", value: integer(&s.MaxRunning), Help: "most requests served at a time, others wait; 0 is no limit"},
		{Name: "sim-reasoning", Group: GroupSim, Default: "0", value: integer(&s.Reasoning), Meta: "TOKENS", Help: "first tokens of chat answers that are reasoning"},
		{Name: "sim-tool-tokens", Group: GroupSim, Default: "0", value: integer(&s.ToolTokens), Meta: "TOKENS", Help: "last tokens of chat answers that are a tool call"},
		{Name: "sim-prefix-cache", Group: GroupSim, value: toggle(&s.PrefixCache), Help: "remember prompts, as servers with a prefix cache do"},
		{
			Name: "sim-faults", Group: GroupSim, value: words(&s.Faults), Meta: "FAULT",
			Help: "faults, by kind and settings, such as cut,at=5,p=0.1 or status,code=503,index=3-7; several may follow",
			Also: also("sim-fault"),
		},
		{Name: "sim-script", Group: GroupSim, value: str(&s.Script), Meta: "FILE", Help: "file of rules and outages for single requests"},
	}
}

// laterFlags are other tools' flags that spate knows and does not have.
func laterFlags() []Def {
	text := func() *value { return str(new(string)) }
	defs := []Def{
		{Name: "tokenizer-revision", value: text(), Needs: "downloads of tokenizers", Help: "revision of the tokenizer"},
		{Name: "confidence", value: text(), Needs: "intervals other than 95 %", Help: "level of the intervals", Also: also("confidence-level")},
		{Name: "sweep-max-concurrency", value: text(), Needs: "spate sweep --max-concurrency 1,2,4 does this", Help: "levels of concurrency to go through"},
		{Name: "sweep-request-rate", value: text(), Needs: "spate sweep --request-rate 2,4,8 does this", Help: "rates to go through"},
		{Name: "compare", value: words(new([]string)), Needs: "spate compare A B does this", Help: "two results side by side"},
	}
	for i := range defs {
		defs[i].Group = GroupLater
	}
	return defs
}

// generalFlags steer the reading of flags itself.
func generalFlags() []Def {
	return []Def{
		{
			Name: "config", Group: GroupGeneral, Main: true, value: str(new(string)), Meta: "FILE",
			Help: "YAML file of flags, keys with - or _; the command line wins over it; with a list of tenants it describes several workloads at once (docs/tenants.md)",
		},
		{
			Name: "help", Group: GroupGeneral, Main: true, value: toggle(new(bool)), Also: also("h"),
			Help: "this help; --help=all for every flag, --help=WORD to search or for one group",
		},
	}
}
