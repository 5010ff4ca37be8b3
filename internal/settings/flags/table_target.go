package flags

import (
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
)

// targetFlags says where the server is and what it speaks.
func targetFlags(b *config.Bench) []Def {
	t := &b.Target
	return []Def{
		{
			Name: "label", Group: GroupOutput, VLLM: true, value: str(&b.Output.Label),
			Help: "name of the run in the result file and its file name; the backend when not given",
		},
		{
			Name: "backend", Group: GroupTarget, VLLM: true, Main: true, Default: "openai", value: enum(&t.Backend), Meta: "NAME",
			Choices: protocol.Names(),
			Help:    "protocol: openai and vllm are completions, openai-chat is chat; docs/backends.md has them all",
			Also:    []Alias{{Name: "api", To: backendKind}, {Name: "task", To: backendKind}},
		},
		{
			Name: "endpoint-type", Group: GroupTarget, value: str(new(string)), Meta: "NAME",
			Help: "older scripts' name for what is now --backend; where both are given, this one chooses the protocol",
		},
		{
			Name: "base-url", Group: GroupTarget, VLLM: true, Main: true, value: urls(&t.BaseURLs),
			Help: "base URL of the server; give several to spread requests over them",
			Also: also("url", "target", "endpoints", "api-base"),
		},
		{
			Name: "route", Group: GroupTarget, Default: "round-robin", value: enum(&t.Route), Choices: []string{"round-robin", "sticky"},
			Help: "how requests are spread over several base URLs; sticky keeps a session on one",
		},
		{Name: "host", Group: GroupTarget, VLLM: true, Main: true, Default: "127.0.0.1", value: str(&t.Host), Help: "host of the server, when no base URL is given"},
		{Name: "port", Group: GroupTarget, VLLM: true, Main: true, Default: "8000", value: integer(&t.Port), Help: "port of the server, when no base URL is given; some backends have another default"},
		{
			Name: "endpoint", Group: GroupTarget, VLLM: true, Main: true, Default: config.CompletionsPath, value: str(&t.Endpoint), Meta: "PATH",
			Help: "path that requests are sent to; some backends have another default",
		},
		{Name: "unix-socket", Group: GroupTarget, value: str(&t.UnixSocket), Meta: "FILE", Help: "reach the server through this Unix socket"},
		{
			Name: "header", Group: GroupTarget, VLLM: true, value: headers(&t.Headers),
			Help: "extra request headers; several may follow, and the flag may be repeated",
		},
		{
			Name: "api-key", Group: GroupTarget, value: hiddenText(&t.APIKey), Meta: "KEY",
			Help: "API key; better given in the environment as OPENAI_API_KEY, for anthropic as ANTHROPIC_API_KEY; never written anywhere",
		},
		{Name: "insecure", Group: GroupTarget, VLLM: true, value: toggle(&t.Insecure), Help: "do not check the server's certificate"},
		{Name: "ca-cert", Group: GroupTarget, value: str(&t.CACert), Meta: "FILE", Help: "PEM file with the authority that signed the server's certificate"},
		{
			Name: "ready-check-timeout-sec", Group: GroupTarget, VLLM: true, Default: "0", value: wholeSeconds(&t.ReadyTimeout),
			Help: "wait this long for the server to answer before the run; 0 does not check",
		},
		{Name: "profile", Group: GroupTarget, VLLM: true, value: toggle(&t.Profile), Help: "start and stop the server's profiler around the run"},
		{
			Name: "reset-prefix-cache", Group: GroupTarget, value: toggle(&t.ResetPrefixCache),
			Help: "ask the server to empty its prefix cache before the run",
		},
		{
			Name: "launch", Group: GroupTarget, value: str(&b.Launch.Command), Meta: "COMMAND",
			Help: "start this server for the run and stop it afterwards; {port} is replaced by a free port",
		},
		{
			Name: "launch-timeout", Group: GroupTarget, Default: "10m", value: duration(&b.Launch.Ready),
			Help: "how long a launched server may take to answer",
		},
		{Name: "launch-log", Group: GroupTarget, value: str(&b.Launch.Log), Meta: "FILE", Help: "file for what a launched server prints"},
		{Name: "launch-gpus", Group: GroupTarget, value: str(&b.Launch.GPUs), Meta: "LIST", Help: "GPUs of a launched server, such as 0,1"},
		{
			Name: "launch-gpu-memory-used-ok", Group: GroupTarget, value: str(&b.Launch.UsedOK), Meta: "SIZE",
			Help: "GPU memory that others may use when a server is launched, such as 20GiB or any",
		},
	}
}

// backendKind reads the words other tools have for a protocol.
func backendKind(word string) ([]target, error) {
	switch word {
	case "chat", "chat_completions", "chat-completions", "/v1/chat/completions", "text-to-text":
		word = "openai-chat"
	case "completions", "completion", "/v1/completions", "openai-comp":
		word = "openai"
	case "embeddings":
		word = "openai-embeddings"
	case "responses":
		word = "openai-responses"
	}
	return []target{{flag: "backend", word: word}}, nil
}

// modelFlags says what to ask for and how to count its tokens.
func modelFlags(b *config.Bench) []Def {
	m := &b.Model
	return []Def{
		{
			Name: "model", Group: GroupModel, VLLM: true, Main: true, value: str(&m.ID), Meta: "NAME",
			Help: "model to ask for; without it, the first one the server lists", Also: also("m", "model-names"),
		},
		{
			Name: "served-model-name", Group: GroupModel, VLLM: true, Main: true, value: str(&m.ServedName), Meta: "NAME",
			Help: "name the server knows the model by, where it differs from --model", Also: also("api-model-name"),
		},
		{
			Name: "tokenizer", Group: GroupModel, VLLM: true, Main: true, value: str(&m.Tokenizer), Meta: "PATH",
			Help: "tokenizer: a folder, a tokenizer.json or a name in the Hugging Face cache; the model's when not given",
			Also: also("tokenizer-path"),
		},
		{
			Name: "tokenizer-mode", Group: GroupModel, VLLM: true, Default: "auto", value: str(&m.TokenizerMode),
			Help: "accepted for scripts; spate reads the tokenizer's own file",
		},
		{Name: "trust-remote-code", Group: GroupModel, VLLM: true, value: toggle(&m.TrustRemoteCode), Help: "accepted for scripts; spate runs no remote code"},
		{
			Name: "skip-tokenizer-init", Group: GroupModel, VLLM: true, value: toggle(&m.SkipTokenizerInit),
			Help: "load no tokenizer; as in vLLM, token sections are then left out of the block",
		},
		{Name: "lora-modules", Group: GroupModel, VLLM: true, value: words(&m.LoRAModules), Meta: "NAME", Help: "LoRA adapters to spread requests over"},
		{
			Name: "lora-assignment", Group: GroupModel, VLLM: true, Default: "random", value: enum(&m.LoRAAssignment),
			Choices: []string{"random", "round-robin"}, Help: "how adapters are assigned to requests",
		},
		{
			Name: "lora-weights", Group: GroupModel, value: weights(&m.LoRAWeights),
			Help: "relative number of requests for each of --lora-modules, such as 3,1; the names may also be models that the server serves",
			Also: also("model-weights"),
		},
	}
}
