package instance

import (
	"encoding/json"
	"strings"
	"testing"

	"spate/internal/forecast/profile"
)

// TestChoices asks for several answers as an OpenAI client does, streamed and whole.
func TestChoices(t *testing.T) {
	_, srv := run(t, Options{Profile: profile.Default, Settings: settings(), Scale: 100})
	type choice struct {
		Index   int     `json:"index"`
		Text    string  `json:"text"`
		Finish  *string `json:"finish_reason"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"delta"`
	}
	type reply struct {
		Choices []choice `json:"choices"`
		Usage   *struct {
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	for _, c := range []struct{ name, path, body string }{
		{"completions", "/v1/completions", `{"prompt":"a b c","n":3,"max_tokens":5}`},
		{"chat", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a b c"}],"n":3,"max_tokens":5}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := curl(t, srv.URL()+c.path, c.body)
			var whole reply
			if err := json.Unmarshal([]byte(text), &whole); err != nil || status != 200 {
				t.Fatalf("%d %s: %v", status, text, err)
			}
			texts := map[int]string{}
			for i, ch := range whole.Choices {
				if ch.Index != i || ch.Finish == nil || *ch.Finish != "length" {
					t.Errorf("choice %d: %+v", i, ch)
				}
				texts[i] = ch.Text + ch.Message.Content
			}
			if len(whole.Choices) != 3 || whole.Usage == nil || whole.Usage.Completion != 15 || texts[0] == texts[1] {
				t.Errorf("%s", text)
			}
			_, text = curl(t, srv.URL()+c.path, strings.TrimSuffix(c.body, "}")+`,"stream":true,"stream_options":{"include_usage":true}}`)
			roles, ends, used := 0, map[int]int{}, 0
			parts := map[int]int{}
			for _, line := range strings.Split(text, "\n") {
				data, ok := strings.CutPrefix(line, "data: ")
				if !ok || data == "[DONE]" {
					continue
				}
				var ev reply
				if err := json.Unmarshal([]byte(data), &ev); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				if ev.Usage != nil && len(ev.Choices) == 0 {
					used = ev.Usage.Completion
				}
				for _, ch := range ev.Choices {
					if ch.Delta.Role != "" {
						roles++
						continue
					}
					parts[ch.Index]++
					if ch.Finish != nil {
						ends[ch.Index]++
					}
				}
			}
			wantRoles := 0
			if c.name == "chat" {
				wantRoles = 3
			}
			if used != 15 || roles != wantRoles || len(parts) != 3 || parts[0] != 5 || parts[2] != 5 || len(ends) != 3 || strings.Count(text, "[DONE]") != 1 {
				t.Errorf("usage %d, roles %d, parts %v, ends %v\n%s", used, roles, parts, ends, text)
			}
		})
	}
	if status, text := curl(t, srv.URL()+"/v1/completions", `{"prompt":"a","n":1000}`); status != 400 || !strings.Contains(text, "at most 128") {
		t.Errorf("a thousand answers: %d %s", status, text)
	}
}
