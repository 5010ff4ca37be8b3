package client

import (
	"encoding/json"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// tongue is one server protocol as these tests speak it: what a request must look like and a good answer
// with what it means. speak_test.go holds every backend against it, over sockets and with faults.
type tongue struct {
	names []string // backends that speak it so
	kind  string   // content type of the answer; empty is an event stream
	plain string   // the body with nothing but defaults
	full  string   // with ignore_eos, sampling and an extra body
	mode  asking   // of what a request is made

	answer string   // of the server, as it goes over the wire
	fault  string   // a message that says something went wrong
	says   string   // what of it the error must show
	cutEnd string   // an answer with a finish reason and without the message that must end it; empty where none must
	noEnd  string   // an answer that lacks its end; empty where a clean end of the stream is one
	empty  string   // an answer without a token
	want   expected // what the good answer means
}

// asking is what a request is made of.
type asking uint8

const (
	aText asking = iota
	aBatch
	aRanking
	aSound
	anImage
)

type expected struct {
	text, thoughts, tool string
	tokens               []int32
	kinds                []call.Kind
	in, out, cached      call.Count
	finish               string
	server               *call.ServerTimes
	inputs               int
}

const (
	ndjson   = "application/x-ndjson"
	jsonType = "application/json"
)

func server(n int) call.Count { return call.Count{N: n, From: call.FromServer} }

// asked is the prompt length of requests: what is left where a server tells none.
var asked = call.Count{N: 5, From: call.FromTokenizer}

func (f asking) request() *call.Request {
	r := &call.Request{ID: 3, Name: "r-3", MaxOut: 3, In: asked, Prompt: call.Prompt{Text: "say hi"}}
	switch f {
	case aBatch:
		r.Prompt = call.Prompt{Texts: []string{"one", "two", "three"}}
	case aRanking:
		r.Prompt = call.Prompt{Texts: []string{"query", "one", "two"}}
	case aSound:
		r.Prompt = call.Prompt{Audio: &call.Audio{Name: "audio.wav", Data: []byte("RIFFsound"), Seconds: 2.5}}
	case anImage:
		r.Prompt = call.Prompt{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"text","text":"say hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]`)}
	}
	return r
}

var bare = protocol.Body{Model: "m"}

var laden = protocol.Body{
	Model: "m", IgnoreEOS: true, Sampling: json.RawMessage(`{"temperature":0.5,"repetition_penalty":1.1}`), Extra: json.RawMessage(`{"seed":7}`),
}

// visible are n chunks of text.
func visible(n int) []call.Kind {
	out := make([]call.Kind, n)
	for i := range out {
		out[i] = call.Visible
	}
	return out
}

// tongues are all protocols of package protocol.
func tongues() []tongue {
	out := append(openaiTongues(), nativeTongues()...)
	return append(out, poolingTongues()...)
}

func openaiTongues() []tongue {
	completion := tongue{
		names:  []string{"openai", "vllm", "sglang-oai", "lmdeploy", "scalellm"},
		plain:  `{"model":"m","prompt":"say hi","repetition_penalty":1.0,"max_tokens":3,"logprobs":null,"stream":true,"stream_options":{"include_usage":true}}`,
		full:   `{"model":"m","prompt":"say hi","repetition_penalty":1.1,"max_tokens":3,"logprobs":null,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0.5,"seed":7}`,
		answer: textEvent("a", "") + textEvent(" b", "") + textEvent("c", "length") + usageEvent + doneEvent,
		fault:  "data: {\"error\":{\"message\":\"engine dead\",\"type\":\"Internal\",\"code\":500}}\n\n", says: "Internal: engine dead",
		noEnd: textEvent("a", ""), empty: doneEvent,
		want: expected{
			text: "a bc", tokens: []int32{0, 0, 0}, kinds: visible(3), in: server(7), out: server(3), cached: server(4), finish: "length",
			server: &call.ServerTimes{Queue: 1500 * time.Microsecond, FirstToken: 20 * time.Millisecond, Generation: 40 * time.Millisecond, MeanITL: 10 * time.Millisecond},
		},
	}
	llama := completion
	llama.names = []string{"llama.cpp"}
	llama.plain = `{"model":"m","prompt":"say hi","repetition_penalty":1.0,"max_tokens":3,"logprobs":null,"cache_prompt":false,"stream":true,"stream_options":{"include_usage":true}}`
	llama.full = `{"model":"m","prompt":"say hi","repetition_penalty":1.1,"max_tokens":3,"logprobs":null,"cache_prompt":false,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0.5,"seed":7}`
	llama.answer = textEvent("a", "") + textEvent(" b", "") + textEvent("c", "length") +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3},\"timings\":{\"cache_n\":2,\"prompt_n\":5,\"prompt_ms\":12.5,\"predicted_n\":3,\"predicted_ms\":30,\"predicted_per_token_ms\":10}}\n\n" + doneEvent
	llama.want.cached = server(2)
	llama.want.server = &call.ServerTimes{FirstToken: 12500 * time.Microsecond, Generation: 30 * time.Millisecond, MeanITL: 10 * time.Millisecond}

	chatty := completion
	chatty.names = []string{"openai-chat", "vllm-chat", "sglang-oai-chat", "lmdeploy-chat"}
	chatty.plain = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"say hi"}]}],"max_completion_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`
	chatty.full = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"say hi"}]}],"max_completion_tokens":3,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0.5,"repetition_penalty":1.1,"seed":7}`
	chatty.answer = chatEvent(`{"role":"assistant","content":""}`, "") + chatEvent(`{"reasoning_content":"hm"}`, "") + chatEvent(`{"content":"yes"}`, "") +
		chatEvent(`{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{}"}}]}`, "tool_calls") + usageEvent + doneEvent
	chatty.noEnd = chatEvent(`{"content":"a"}`, "")
	chatty.want.text, chatty.want.thoughts, chatty.want.tool, chatty.want.finish = "yes", "hm", "f{}", "tool_calls"
	chatty.want.tokens, chatty.want.kinds = []int32{0, 0, 0, 0}, []call.Kind{0, call.Reasoning, call.Visible, call.Tool}

	speech := chatty
	speech.names, speech.mode = []string{"openai-audio"}, aSound
	speech.plain = soundForm([][2]string{{"model", "m"}, {"max_completion_tokens", "3"}, {"stream", "True"}, {"language", "en"}, {"stream_include_usage", "True"}, {"stream_continuous_usage_stats", "True"}})
	speech.full = soundForm([][2]string{
		{"model", "m"},
		{"max_completion_tokens", "3"},
		{"stream", "True"},
		{"language", "en"},
		{"stream_include_usage", "True"},
		{"stream_continuous_usage_stats", "True"},
		{"temperature", "0.5"},
		{"repetition_penalty", "1.1"},
		{"seed", "7"},
	})
	counted := func(delta, finish string, n string) string {
		return chatEvent(delta, finish)[:len(chatEvent(delta, finish))-3] + `,"usage":{"prompt_tokens":90,"completion_tokens":` + n + "}}\n\n"
	}
	speech.answer = counted(`{"content":"to"}`, "", "2") + counted(`{"content":" be"}`, "stop", "3") +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":90,\"completion_tokens\":3}}\n\n" + doneEvent
	speech.want = expected{text: "to be", tokens: []int32{2, 1}, kinds: visible(2), in: server(90), out: server(3), finish: "stop"}
	return []tongue{completion, llama, chatty, speech, responsesTongue(), miiTongue()}
}

// soundForm is a form with the sound file of these tests and fields after it.
func soundForm(fields [][2]string) string {
	boundary := strings.TrimPrefix(protocol.Find("openai-audio").Type, "multipart/form-data; boundary=")
	s := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"audio.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFFsound"
	for _, f := range fields {
		s += "\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + f[0] + "\"\r\n\r\n" + f[1]
	}
	return s + "\r\n--" + boundary + "--\r\n"
}

func responsesTongue() tongue {
	event := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + rest + "}\n\n"
	}
	created := event("response.created", `"response":{"id":"r","status":"in_progress","error":null,"usage":null}`)
	delta := func(kind, text string) string { return event(kind, `"sequence_number":4,"delta":"`+text+`"`) }
	ended := func(output string) string {
		return event("response.completed", `"response":{"status":"completed","error":null,"usage":{"input_tokens":9,"output_tokens":`+output+
			`,"input_tokens_details":{"cached_tokens":8},"output_tokens_details":{"reasoning_tokens":2}}}`)
	}
	return tongue{
		names: []string{"openai-responses"},
		plain: `{"model":"m","input":"say hi","max_output_tokens":3,"stream":true}`,
		full:  `{"model":"m","input":"say hi","max_output_tokens":3,"stream":true,"ignore_eos":true,"temperature":0.5,"repetition_penalty":1.1,"seed":7}`,
		answer: created + event("response.output_item.added", `"item":{"type":"reasoning"}`) + delta("response.reasoning_text.delta", "hm") +
			delta("response.output_text.delta", "yes") + delta("response.function_call_arguments.delta", "{}") +
			event("response.output_text.done", `"text":"yes"`) + ended("5"),
		fault: event("error", `"code":"server_error","message":"engine dead","param":null`), says: "engine dead",
		noEnd: created + delta("response.output_text.delta", "a"), empty: created + ended("0"),
		want: expected{
			text: "yes", thoughts: "hm", tool: "{}", tokens: []int32{0, 0, 0}, kinds: []call.Kind{call.Reasoning, call.Visible, call.Tool},
			in: server(9), out: server(5), cached: server(8), finish: "stop",
		},
	}
}

func miiTongue() tongue {
	return tongue{
		names: []string{"deepspeed-mii"}, kind: jsonType,
		plain:  `{"model":"m","prompt":"say hi","max_tokens":3,"temperature":0.01,"top_p":1.0}`,
		full:   `{"model":"m","prompt":"say hi","max_tokens":3,"temperature":0.5,"top_p":1.0,"repetition_penalty":1.1,"seed":7}`,
		answer: `{"text":["a b c"]}`, fault: `{"error":"engine dead"}`, says: "engine dead", empty: `{"text":[""]}`,
		want: expected{text: "a b c", tokens: []int32{0}, kinds: visible(1), in: asked, finish: "end"},
	}
}

func nativeTongues() []tongue {
	return []tongue{
		sglangTongue(), tgiTongue(), anthropicTongue(),
		{
			names:  []string{"tensorrt-llm"},
			plain:  `{"accumulate_tokens":true,"text_input":"say hi","temperature":0.0,"top_p":1.0,"max_tokens":3,"stream":true}`,
			full:   `{"accumulate_tokens":true,"text_input":"say hi","temperature":0.5,"top_p":1.0,"max_tokens":3,"stream":true,"min_length":3,"repetition_penalty":1.1,"seed":7}`,
			answer: tritonAnswer, fault: "data: {\"error\":\"engine dead\"}\n\n", says: "engine dead",
			want: expected{text: "a b", tokens: []int32{0, 0}, kinds: visible(2), in: asked, finish: "end"},
		},
		{
			names:  []string{"trt"},
			plain:  `{"accumulate_tokens":true,"text_input":"say hi","temperature":0.000001,"top_p":1.0,"max_tokens":3,"stream":true}`,
			full:   `{"accumulate_tokens":true,"text_input":"say hi","temperature":0.5,"top_p":1.0,"max_tokens":3,"stream":true,"min_length":3,"end_id":1048576,"repetition_penalty":1.1,"seed":7}`,
			answer: tritonAnswer, fault: "data: {\"error\":\"engine dead\"}\n\n", says: "engine dead",
			want: expected{text: "a b", tokens: []int32{0, 0}, kinds: visible(2), in: asked, finish: "end"},
		},
		{
			names: []string{"llama.cpp-native"},
			plain: `{"prompt":"say hi","n_predict":3,"stream":true,"cache_prompt":false}`,
			full:  `{"prompt":"say hi","n_predict":3,"stream":true,"cache_prompt":false,"ignore_eos":true,"temperature":0.5,"repeat_penalty":1.1,"seed":7}`,
			answer: "data: {\"index\":0,\"content\":\"a\",\"tokens\":[64],\"stop\":false}\n\n" +
				"data: {\"index\":0,\"content\":\"\",\"tokens\":[65],\"stop\":false}\n\n" +
				"data: {\"index\":0,\"content\":\" bc\",\"tokens\":[66,67],\"stop\":false}\n\n" +
				"data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":true,\"tokens_predicted\":4,\"tokens_evaluated\":6,\"stop_type\":\"limit\",\"truncated\":false," +
				"\"timings\":{\"cache_n\":1,\"prompt_n\":6,\"prompt_ms\":12.5,\"predicted_n\":4,\"predicted_ms\":40,\"predicted_per_token_ms\":10}}\n\n",
			fault: "data: {\"error\":{\"code\":500,\"message\":\"engine dead\",\"type\":\"server_error\"}}\n\n", says: "server_error: engine dead",
			noEnd: "data: {\"content\":\"a\",\"tokens\":[64],\"stop\":false}\n\n",
			empty: "data: {\"content\":\"\",\"tokens\":[],\"stop\":true,\"stop_type\":\"eos\"}\n\n",
			want: expected{
				text: "a bc", tokens: []int32{1, 1, 2}, kinds: []call.Kind{call.Visible, 0, call.Visible}, in: server(6), out: server(4), cached: server(1), finish: "length",
				server: &call.ServerTimes{FirstToken: 12500 * time.Microsecond, Generation: 40 * time.Millisecond, MeanITL: 10 * time.Millisecond},
			},
		},
		ollamaTongue("ollama", `"prompt":"say hi","raw":true`, func(s string) string { return `"response":"` + s + `"` }),
		ollamaTongue("ollama-chat", `"messages":[{"role":"user","content":"say hi"}]`, func(s string) string { return `"message":{"role":"assistant","content":"` + s + `"}` }),
	}
}

const tritonAnswer = "data: {\"model_name\":\"ensemble\",\"model_version\":\"1\",\"sequence_end\":false,\"text_output\":\"a\"}\n\n" +
	"data: {\"model_name\":\"ensemble\",\"model_version\":\"1\",\"sequence_end\":false,\"text_output\":\" b\"}\n\n"

func sglangTongue() tongue {
	message := func(text, count, finish string) string {
		return `data: {"text":"` + text + `","meta_info":{"id":"x","finish_reason":` + finish + `,"prompt_tokens":7,"completion_tokens":` + count + `,"cached_tokens":4}}` + "\n\n"
	}
	return tongue{
		names: []string{"sglang", "sglang-native"},
		plain: `{"text":"say hi","sampling_params":{"temperature":0.0,"max_new_tokens":3,"ignore_eos":false},"stream":true}`,
		full:  `{"text":"say hi","sampling_params":{"temperature":0.5,"max_new_tokens":3,"ignore_eos":true,"repetition_penalty":1.1},"stream":true,"seed":7}`,
		// The whole answer each time: three tokens at once, one more, and an end that repeats it.
		answer: message("a b", "3", "null") + message("a b c", "4", "null") + message("a b c", "4", `{"type":"length","length":4}`) + doneEvent,
		fault:  "data: {\"error\":{\"message\":\"engine dead\",\"type\":\"Internal\"}}\n\n", says: "engine dead",
		noEnd: message("a", "1", "null"), empty: message("", "0", `{"type":"stop","matched":2}`) + doneEvent,
		want: expected{text: "a b c", tokens: []int32{3, 1}, kinds: visible(2), in: server(7), out: server(4), cached: server(4), finish: "length"},
	}
}

func tgiTongue() tongue {
	token := func(text, special, rest string) string {
		return `data:{"index":1,"token":{"id":5,"text":"` + text + `","logprob":-0.1,"special":` + special + `},"generated_text":` + rest + "}\n\n"
	}
	return tongue{
		names:  []string{"tgi"},
		plain:  `{"inputs":"say hi","parameters":{"max_new_tokens":3,"do_sample":true,"temperature":0.01,"top_p":0.99,"truncate":5,"ignore_eos_token":false,"details":true}}`,
		full:   `{"inputs":"say hi","parameters":{"max_new_tokens":3,"do_sample":true,"temperature":0.5,"top_p":0.99,"truncate":5,"ignore_eos_token":true,"details":true,"repetition_penalty":1.1},"seed":7}`,
		answer: ":\n\n" + token("a", "false", `null,"details":null`) + token(" b", "false", `null,"details":null`) + token("</s>", "true", `"a b","details":{"finish_reason":"eos_token","generated_tokens":3,"input_length":6,"seed":null}`),
		fault:  "data:{\"error\":\"engine dead\",\"error_type\":\"generation\"}\n\n", says: "engine dead",
		noEnd: token("a", "false", "null"), empty: "data:{\"generated_text\":\"\"}\n\n",
		want: expected{text: "a b", tokens: []int32{1, 1, 1}, kinds: []call.Kind{call.Visible, call.Visible, 0}, in: server(6), out: server(3), finish: "eos_token"},
	}
}

func anthropicTongue() tongue {
	event := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	start := event("message_start", `,"message":{"id":"m1","role":"assistant","content":[],"usage":{"input_tokens":5,"cache_creation_input_tokens":1,"cache_read_input_tokens":3,"output_tokens":1}}`)
	delta := func(d string) string { return event("content_block_delta", `,"index":0,"delta":`+d) }
	end := event("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":12}`) + event("message_stop", "")
	return tongue{
		names: []string{"anthropic"},
		plain: `{"model":"m","messages":[{"role":"user","content":"say hi"}],"max_tokens":3,"stream":true}`,
		full:  `{"model":"m","messages":[{"role":"user","content":"say hi"}],"max_tokens":3,"stream":true,"temperature":0.5,"repetition_penalty":1.1,"seed":7}`,
		answer: start + event("content_block_start", `,"index":0,"content_block":{"type":"thinking","thinking":""}`) + event("ping", "") +
			delta(`{"type":"thinking_delta","thinking":"hm"}`) + delta(`{"type":"signature_delta","signature":"s"}`) + event("content_block_stop", `,"index":0`) +
			event("content_block_start", `,"index":1,"content_block":{"type":"text","text":""}`) + delta(`{"type":"text_delta","text":"yes"}`) +
			event("content_block_start", `,"index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}`) +
			delta(`{"type":"input_json_delta","partial_json":"{}"}`) + event("content_block_stop", `,"index":2`) + end,
		fault: event("error", `,"error":{"type":"overloaded_error","message":"engine dead"}`), says: "overloaded_error: engine dead",
		noEnd: start + delta(`{"type":"text_delta","text":"a"}`), cutEnd: strings.TrimSuffix(start+delta(`{"type":"text_delta","text":"a"}`)+end, event("message_stop", "")),
		empty: start + event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":0}`) + event("message_stop", ""),
		want: expected{
			text: "yes", thoughts: "hm", tool: "f{}", tokens: []int32{0, 0, 0, 0}, kinds: []call.Kind{call.Reasoning, call.Visible, call.Tool, call.Tool},
			in: server(9), out: server(12), cached: server(3), finish: "tool_use",
		},
	}
}

func ollamaTongue(name, prompt string, content func(string) string) tongue {
	line := func(s, rest string) string {
		return `{"model":"m","created_at":"2025-01-01T00:00:00Z",` + content(s) + "," + rest + "}\n"
	}
	durations := `"done":true,"done_reason":"length","context":[1,2],"total_duration":90000000,"load_duration":5000000,"prompt_eval_count":6,"prompt_eval_duration":20000000,"eval_count":3,"eval_duration":60000000`
	return tongue{
		names: []string{name}, kind: ndjson,
		plain:  `{"model":"m",` + prompt + `,"stream":true,"options":{"num_predict":3}}`,
		full:   `{"model":"m",` + prompt + `,"stream":true,"options":{"num_predict":3,"temperature":0.5,"repeat_penalty":1.1},"seed":7}`,
		answer: line("a", `"done":false`) + line(" b", `"done":false`) + line("c", `"done":false`) + line("", durations),
		fault:  "{\"error\":\"engine dead\"}\n", says: "engine dead",
		noEnd: line("a", `"done":false`), empty: line("", `"done":true,"done_reason":"stop"`),
		want: expected{
			text: "a bc", tokens: []int32{0, 0, 0}, kinds: visible(3), in: server(6), out: server(3), finish: "length",
			server: &call.ServerTimes{Queue: 5 * time.Millisecond, FirstToken: 20 * time.Millisecond, Generation: 60 * time.Millisecond, MeanITL: 20 * time.Millisecond},
		},
	}
}

func poolingTongues() []tongue {
	embeddings := `{"object":"list","data":[{"index":0,"embedding":[0.1,0.2]}],"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}`
	pool := func(mode asking, inputs int, plain string, names ...string) tongue {
		t := tongue{
			names: names, kind: jsonType, mode: mode, plain: plain, full: plain[:len(plain)-1] + `,"seed":7}`,
			answer: embeddings, fault: `{"error":{"message":"engine dead","type":"Internal","code":500}}`, says: "Internal: engine dead",
			want: expected{in: server(8), inputs: inputs},
		}
		return t
	}
	cut := `,"truncate_prompt_tokens":-1}`
	picture := `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}`
	rank := pool(aRanking, 2, `{"model":"m","query":"query","documents":["one","two"]`+cut, "vllm-rerank")
	rank.full = rank.plain
	rank.answer = `{"id":"r","results":[{"index":1,"relevance_score":0.9}],"usage":{"total_tokens":8}}`
	return []tongue{
		pool(aText, 1, `{"model":"m","input":"say hi"`+cut, "openai-embeddings", "vllm-pooling"),
		pool(aBatch, 3, `{"model":"m","input":["one","two","three"]`+cut, "openai-embeddings"),
		pool(aText, 1, `{"model":"m","input":"say hi"}`, "sglang-embedding", "infinity-embeddings", "infinity-embeddings-clip"),
		pool(aText, 1, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"say hi"}]}]`+cut, "openai-embeddings-chat", "openai-embeddings-clip"),
		pool(anImage, 1, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"say hi"},`+picture+`]}]`+cut, "openai-embeddings-chat"),
		pool(anImage, 1, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":""},`+picture+`]}]`+cut, "openai-embeddings-clip"),
		pool(anImage, 1, `{"model":"m","messages":[{"role":"user","content":[`+picture+`,{"type":"text","text":"Represent the given image with the following question: say hi"}]}]`+cut, "openai-embeddings-vlm2vec"),
		pool(anImage, 1, `{"model":"m","input":"data:image/png;base64,AA","modality":"image"}`, "infinity-embeddings-clip"),
		rank,
	}
}
