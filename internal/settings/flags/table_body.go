package flags

import (
	"errors"
	"strings"

	"spate/internal/settings/config"
)

// bodyFlags says what stands in each request beside the prompt.
func bodyFlags(b *config.Bench) []Def {
	y := &b.Body
	return []Def{
		{
			Name: "ignore-eos", Group: GroupBody, VLLM: true, Main: true, value: toggle(&y.IgnoreEOS),
			Help: "ask the server for the full output length; always on for random prompts",
		},
		{Name: "logprobs", Group: GroupBody, VLLM: true, value: maybeInt(&y.Logprobs), Help: "log probabilities to ask for (completions)"},
		{Name: "use-beam-search", Group: GroupBody, VLLM: true, value: toggle(&y.UseBeamSearch), Help: "accepted for scripts; without effect, as in vLLM"},
		{Name: "best-of", Group: GroupBody, value: maybeInt(&y.BestOf), Help: "older scripts' best_of, sent when above 1"},
		{Name: "temperature", Group: GroupBody, VLLM: true, Main: true, value: maybeFloat(&y.Temperature), Help: "sampling temperature; the server's own when not given"},
		{Name: "top-p", Group: GroupBody, VLLM: true, value: maybeFloat(&y.TopP), Help: "nucleus sampling"},
		{Name: "top-k", Group: GroupBody, VLLM: true, value: maybeInt(&y.TopK), Help: "sample from the k likeliest tokens"},
		{Name: "min-p", Group: GroupBody, VLLM: true, value: maybeFloat(&y.MinP), Help: "least probability relative to the likeliest token"},
		{Name: "frequency-penalty", Group: GroupBody, VLLM: true, value: maybeFloat(&y.FrequencyPenalty), Help: "penalty by how often a token has occurred"},
		{Name: "presence-penalty", Group: GroupBody, VLLM: true, value: maybeFloat(&y.PresencePenalty), Help: "penalty for tokens that have occurred"},
		{Name: "repetition-penalty", Group: GroupBody, VLLM: true, value: maybeFloat(&y.RepetitionPenalty), Help: "penalty for repeating"},
		{
			Name: "extra-body", Group: GroupBody, VLLM: true, Main: true, value: object(&y.Extra),
			Help: "JSON fields for the body of every request; they replace others of the same name, and null removes one; a single field: --extra-body.top_k 5",
			Also: append(also("extra-args"), Alias{Name: "extra-inputs", Many: true, To: extraInput}),
		},
		{
			Name: "chat-template-kwargs", Group: GroupBody, VLLM: true, value: object(&y.ChatTemplate),
			Help: "variables for the chat template where spate applies it (custom)",
		},
		{
			Name: "continuous-usage", Group: GroupBody, Main: true, value: toggle(&y.ContinuousUsage),
			Help: "ask for token counts on every chunk: inter-token latency per token, not per chunk",
		},
		{
			Name: "prompt-token-ids", Group: GroupBody, value: toggle(&y.PromptTokenIDs),
			Help: "send token ids instead of text: lengths are exact (completions)",
		},
	}
}

// extraInput reads key:value, or a whole object.
func extraInput(word string) ([]target, error) {
	if strings.HasPrefix(strings.TrimSpace(word), "{") {
		return []target{{flag: "extra-body", word: word}}, nil
	}
	k, v, ok := strings.Cut(word, ":")
	if !ok || k == "" {
		return nil, errors.New("is not KEY:VALUE")
	}
	return []target{{flag: "extra-body", keys: []string{k}, word: v}}, nil
}

// clientFlags says how requests travel.
func clientFlags(b *config.Bench) []Def {
	c := &b.Client
	return []Def{
		{
			Name: "connect", Group: GroupClient, Default: "ahead", value: enum(&c.Connect), Choices: []string{"ahead", "in-band"},
			Help: "ahead opens connections before requests are due, so that connecting is not part of latency; in-band opens them when requests are due, as part of latency",
		},
		{Name: "http-version", Group: GroupClient, Default: "1.1", value: enum(&c.HTTPVersion), Choices: []string{"1.1", "2"}, Help: "HTTP version"},
		{
			Name: "http-client", Group: GroupClient, Default: "auto", value: enum(&c.HTTPClient), Choices: []string{"auto", "raw", "std"},
			Help: "raw is spate's own HTTP/1.1 reader, std is Go's; auto takes raw where it can",
		},
		{
			Name: "request-timeout", Group: GroupClient, Default: "1h", value: duration(&c.RequestTimeout),
			Help: "cancel a request after this long, including retries and the waits between them; 0 is no limit", Also: also("timeout", "request-timeout-seconds"),
		},
		{
			Name: "idle-timeout", Group: GroupClient, Default: "10m", value: duration(&c.IdleTimeout),
			Help: "cancel a request, as idle_timeout, when nothing arrives for this long after its first token; 0 is no limit",
		},
		{
			Name: "retries", Group: GroupClient, Default: "0", value: integer(&c.Retries),
			Help: "send a failed request again up to this many times; every attempt is recorded", Also: also("max-retries"),
		},
		{
			Name: "max-response-bytes", Group: GroupClient, Default: "134217728", value: integer(&c.MaxResponse),
			Help: "cancel an answer that has more bytes, as too_large; 128 MiB is enough for 131,072 tokens with log probabilities",
		},
	}
}
