package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spate/internal/load/media"
	"spate/internal/load/rows"
)

// candidate is what a row offers.
type candidate struct {
	prompt   string
	answer   string          // as long as the output is to be, where the length comes from the data
	out      int             // tokens of output, where the row says so
	messages json.RawMessage // instead of the prompt, for chat
	extra    json.RawMessage // further fields of the body
	media    []media.Medium  // that go with the prompt
}

// hubRule is how the rows of some datasets are read.
type hubRule struct {
	name     string
	ids      []string
	split    string
	output   int  // FromData: as long as the answer
	template bool // prompts are dressed as chat messages
	media    bool // prompts go with images, videos or sounds
	sound    bool // they go with sounds
	check    func(in, out int) bool
	read     func(row rows.Row, cfg *HF) (c candidate, keep bool, err error)
}

// hubRules are the datasets vLLM has classes for, as far as they are text.
var hubRules = []hubRule{
	{
		name: "Conversation", ids: []string{"Aeala/ShareGPT_Vicuna_unfiltered"}, output: FromData, check: usualLengths,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			turns := said(r["conversations"])
			if len(turns) < 2 {
				return candidate{}, false, nil
			}
			return candidate{prompt: turns[0], answer: turns[1]}, true, nil
		},
	},
	{
		name: "InstructCoder", ids: []string{"likaixin/InstructCoder"}, split: "train", output: 200, template: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			return candidate{prompt: text(r, "input") + "\n\n" + text(r, "instruction") + " Answer with the code alone and explain nothing."}, true, nil
		},
	},
	{
		name: "MTBench", ids: []string{"philschmid/mt-bench"}, split: "train", output: 256, template: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			turns := said(r["turns"])
			if len(turns) == 0 {
				return candidate{}, false, errors.New(`no "turns"`)
			}
			return candidate{prompt: turns[0]}, true, nil
		},
	},
	{name: "HumanEval", ids: []string{"openai/openai_humaneval"}, split: "test", output: 256, template: true, read: column("prompt", "")},
	{name: "GSM8K", ids: []string{"openai/gsm8k"}, split: "test", output: 256, template: true, read: column("question", "")},
	{
		name: "AIMO", ids: []string{"AI-MO/aimo-validation-aime", "AI-MO/NuminaMath-1.5", "AI-MO/NuminaMath-CoT"}, split: "train", output: FromData,
		check: func(in, out int) bool { return in >= minTokens && out >= minTokens && in <= 2048 && in+out <= 32000 },
		read:  column("problem", "solution"),
	},
	{
		name: "Blazedit", ids: []string{"vdaita/edit_5k_char", "vdaita/edit_10k_char"}, split: "train", output: 4000, template: true,
		read: func(r rows.Row, cfg *HF) (candidate, bool, error) {
			d, ok := r["norm_distance"].(float64)
			if !ok {
				return candidate{}, false, errors.New(`no number "norm_distance"`)
			}
			return candidate{prompt: "Here is a file:\n```\n" + text(r, "code") + "\n```\nChange it as follows: " + text(r, "change_request") +
				"\nWrite down the whole changed file and nothing else."}, d >= cfg.MinDistance && d <= cfg.MaxDistance, nil
		},
	},
	{name: "NextEdit", ids: []string{"zed-industries/zeta"}, split: "train", output: FromData, read: nextEdit},
	{
		name: "MLPerf", ids: []string{"mgoin/mlperf-inference-llama2-data", "mgoin/mlperf-inference-llama3.1-data"}, split: "train", output: FromData,
		template: true, check: usualLengths,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			prompt, system := text(r, "question"), text(r, "system_prompt")
			if system != "" {
				prompt = system + "\n\n" + prompt
			}
			return candidate{prompt: prompt, answer: text(r, "output")}, true, nil
		},
	},
	{name: "chat requests", ids: []string{"openai/requests"}, output: 256, read: chatRequest},
	{name: "BFCL", ids: []string{"gorilla-llm/Berkeley-Function-Calling-Leaderboard"}, output: 512, read: functionCall},
}

// usualLengths is the filter of conversations.
func usualLengths(in, out int) bool {
	return in >= minTokens && out >= minTokens && in <= maxPromptTokens && in+out <= maxTotalTokens
}

// column takes the prompt, and the answer where one is named, from a column each.
func column(prompt, answer string) func(rows.Row, *HF) (candidate, bool, error) {
	return func(r rows.Row, _ *HF) (candidate, bool, error) {
		p, ok := r[prompt].(string)
		if !ok {
			return candidate{}, false, fmt.Errorf("no text %q", prompt)
		}
		return candidate{prompt: p, answer: text(r, answer)}, true, nil
	}
}

func text(r rows.Row, column string) string {
	s, _ := r[column].(string)
	return s
}

// said are the texts of a conversation, however it is written: messages, turns or plain texts.
func said(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, x := range list {
		switch x := x.(type) {
		case string:
			out = append(out, x)
		case map[string]any:
			for _, key := range []string{"value", "content", "text"} {
				if s, ok := x[key].(string); ok {
					out = append(out, s)
					break
				}
			}
		}
	}
	return out
}

// editMark is where the part of a file begins that the model writes anew.
const editMark = "<|editable_region_start|>"

func nextEdit(r rows.Row, _ *HF) (candidate, bool, error) {
	output := text(r, "output")
	if at := strings.Index(output, editMark); at >= 0 {
		output = output[at:]
	}
	return candidate{
		prompt: "A programmer is at work. These are the last changes:\n\n" + text(r, "events") + "\n\nThis is the part of the file around the cursor:\n\n" +
			text(r, "input") + "\n\nWrite the part between the markers as the programmer will most likely leave it.",
		answer: output,
	}, true, nil
}

// chatRequest reads a request as it was sent to a chat endpoint: its messages, its length, and whatever else it has.
// Who asks for a stream and of which model is this run's affair.
func chatRequest(r rows.Row, _ *HF) (candidate, bool, error) {
	turns, _ := r["messages"].([]any)
	if len(turns) == 0 {
		return candidate{}, false, errors.New(`no "messages"`)
	}
	c := candidate{prompt: strings.Join(said(turns), "\n\n")}
	rest := map[string]any{}
	for k, v := range r {
		switch k {
		case "messages", "model", "stream", "stream_options":
		case "max_tokens", "max_completion_tokens":
			n, _ := v.(float64)
			c.out = max(c.out, int(n))
		default:
			rest[k] = v
		}
	}
	var err error
	if c.messages, err = rawJSON(turns); err == nil && len(rest) > 0 {
		c.extra, err = rawJSON(rest)
	}
	return c, true, err
}

// functionCall reads a row of the Berkeley function-calling leaderboard: the messages of its first turn, and
// its functions as tools with the types JSON Schema has.
func functionCall(r rows.Row, _ *HF) (candidate, bool, error) {
	turns, _ := r["question"].([]any)
	functions, _ := r["function"].([]any)
	if len(turns) == 0 || len(functions) == 0 {
		return candidate{}, false, errors.New(`no "question" and "function"`)
	}
	var tools []any
	for _, f := range functions {
		tools = append(tools, map[string]any{"type": "function", "function": schemaTypes(f)})
	}
	messages, err := rawJSON(turns[0])
	if err != nil {
		return candidate{}, false, err
	}
	extra, err := rawJSON(map[string]any{"tools": tools, "tool_choice": "auto"})
	return candidate{prompt: strings.Join(said(turns[0]), "\n"), messages: messages, extra: extra}, err == nil, err
}

// schemaTypes renames Python's types to JSON Schema's.
func schemaTypes(v any) any {
	names := map[string]string{"dict": "object", "float": "number", "tuple": "array", "any": "string"}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if s, ok := x.(string); ok && k == "type" && names[s] != "" {
				v[k] = names[s]
				continue
			}
			v[k] = schemaTypes(x)
		}
	case []any:
		for i := range v {
			v[i] = schemaTypes(v[i])
		}
	}
	return v
}

// rawJSON writes JSON as a server takes it, without escapes for web pages.
func rawJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// Columns in which datasets without a rule of their own have prompts and answers, the likelier first.
var (
	promptColumns = []string{"prompt", "question", "conversations", "conversation", "messages", "turns", "problem", "query", "instruction", "text", "content", "input"}
	answerColumns = []string{"response", "answer", "completion", "output", "solution", "chosen"}
)

// detect makes a rule for rows like one.
func detect(row rows.Row) (hubRule, string, error) {
	var have []string
	for name := range row {
		have = append(have, name)
	}
	slices.Sort(have)
	at := slices.IndexFunc(promptColumns, func(c string) bool { return speaks(row[c]) })
	if at < 0 {
		return hubRule{}, "", fmt.Errorf("no column looks like a prompt (%s are looked for; there are %s)", strings.Join(promptColumns, ", "), strings.Join(have, ", "))
	}
	prompt, answer := promptColumns[at], ""
	if k := slices.IndexFunc(answerColumns, func(c string) bool { return c != prompt && speaks(row[c]) }); k >= 0 {
		answer = answerColumns[k]
	}
	rule := hubRule{name: "rows", output: FromData, read: func(r rows.Row, _ *HF) (candidate, bool, error) { return guessed(r, prompt, answer) }}
	note := fmt.Sprintf("prompts are column %q", prompt)
	switch first, _, _ := guessed(row, prompt, answer); {
	case answer != "":
		note += fmt.Sprintf(", output lengths those of %q", answer)
	case first.answer == "":
		rule.output = 256
	}
	return rule, note, nil
}

func speaks(v any) bool {
	s, ok := v.(string)
	return ok && s != "" || len(said(v)) > 0
}

func guessed(r rows.Row, prompt, answer string) (candidate, bool, error) {
	c := candidate{answer: text(r, answer)}
	if s, ok := r[prompt].(string); ok {
		c.prompt = s
		if more := text(r, "input"); prompt == "instruction" && more != "" {
			c.prompt += "\n\n" + more
		}
		return c, c.prompt != "", nil
	}
	turns := said(r[prompt])
	if len(turns) == 0 {
		return candidate{}, false, nil
	}
	c.prompt = turns[0]
	if list, _ := r[prompt].([]any); len(turns) > 1 && isMessages(list) { // of questions alone, the second is no answer
		c.answer = turns[1]
	}
	return c, true, nil
}

func isMessages(list []any) bool {
	_, ok := list[0].(map[string]any)
	return ok
}
