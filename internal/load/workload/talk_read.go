package workload

import (
	"errors"
	"fmt"
	"time"

	"spate/internal/load/lengths"
	"spate/internal/load/rows"
	"spate/internal/rng"
)

// readScripts reads conversations: ShareGPT's and chat messages by row, or agents' sessions.
func readScripts(cfg *Config) ([][]step, error) {
	var all [][]step
	files, err := rows.Files(cfg.Open, cfg.Path, "", "")
	if err != nil {
		return nil, err
	}
	n := 0
	for row, err := range rows.Concat(cfg.Open, files) {
		if err != nil {
			return nil, err
		}
		n++
		scripts, err := parseScripts(row, cfg, len(all))
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", n, err)
		}
		all = append(all, scripts...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of %d rows holds a conversation", n)
	}
	return all, nil
}

// parseScripts reads the conversations of a row.
func parseScripts(row rows.Row, cfg *Config, number int) ([][]step, error) {
	if rounds, ok := row["turns"].([]any); ok && len(rounds) > 0 {
		if _, plain := rounds[0].(string); !plain {
			s, err := parseSteps(rounds, cfg, 0)
			return [][]step{cut(s, cfg)}, err
		}
	}
	if many, ok := row["conversations"].([]any); ok && len(many) > 0 {
		if _, nested := many[0].([]any); nested { // SGLang's agentic traces: a list of conversations
			var all [][]step
			for _, one := range many {
				rounds, _ := one.([]any)
				s, err := parseSteps(rounds, cfg, 0)
				if err != nil {
					return nil, err
				}
				if len(s) > 0 {
					all = append(all, cut(s, cfg))
				}
			}
			return all, nil
		}
	}
	for _, key := range []string{"conversations", "conversation", "messages", "turns"} {
		if list, ok := row[key].([]any); ok {
			if s := cut(parseTalk(list, cfg, number), cfg); len(s) > 0 {
				return [][]step{s}, nil
			}
			return nil, nil
		}
	}
	return nil, errors.New(`no "conversations", "messages" or "turns"`)
}

func cut(s []step, cfg *Config) []step {
	if m := cfg.Talk.MaxTurns; m > 0 && len(s) > m {
		return s[:m]
	}
	return s
}

// parseTalk takes messages as they alternate: what users say is sent, what assistants said tells how long
// answers are.
func parseTalk(list []any, cfg *Config, number int) []step {
	draws := rng.New(cfg.Seed, "think", uint64(number))
	var script []step
	var say []message
	for i, x := range list {
		m := messageFrom(x, i)
		if m.Role != "assistant" {
			say = append(say, m)
			continue
		}
		if len(say) > 0 {
			script = append(script, step{say: say, out: cfg.Output, answer: m.text()})
			say = nil
		}
	}
	if len(say) > 0 {
		script = append(script, step{say: say, out: max(cfg.Output, 1)})
	}
	for i := range script {
		if script[i].out == FromData && script[i].answer == "" {
			script[i].out = 256
		}
		if i > 0 && cfg.Talk.Think.Law != "" {
			script[i].think = time.Duration(max(0, cfg.Talk.Think.Draw(draws)) * float64(time.Second))
		}
	}
	return script
}

// messageFrom reads a message in the words of ShareGPT or of chat; plain texts alternate.
func messageFrom(x any, i int) message {
	roles := map[string]string{"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}
	m := message{Role: []string{"user", "assistant"}[i%2]}
	switch x := x.(type) {
	case string:
		m.Role, m.Content = "user", x // a list of texts is what users say
	case map[string]any:
		for _, key := range []string{"role", "from"} {
			if r, ok := x[key].(string); ok {
				if m.Role = r; roles[r] != "" {
					m.Role = roles[r]
				}
			}
		}
		for _, key := range []string{"content", "value", "text"} {
			if v, ok := x[key]; ok && v != nil {
				m.Content = v
				break
			}
		}
	}
	if m.Content == nil {
		m.Content = ""
	}
	return m
}

// deepest is how far sub-agents may have sub-agents.
const deepest = 8

// parseSteps reads an agent's session: rounds with the messages that are new in them, and sub-agents.
func parseSteps(rounds []any, cfg *Config, depth int) ([]step, error) {
	if depth > deepest {
		return nil, fmt.Errorf("sub-agents lie deeper than %d", deepest)
	}
	var script []step
	for i, x := range rounds {
		r, _ := x.(map[string]any)
		list, _ := r["messages"].([]any)
		if len(list) == 0 {
			return nil, fmt.Errorf(`round %d has no "messages"`, i+1)
		}
		st := step{out: cfg.Output}
		for k, m := range list {
			st.say = append(st.say, messageFrom(m, k))
		}
		if n, ok := r["output_tokens"].(float64); ok && n >= 1 && n <= lengths.MaxLength && cfg.Output == FromData {
			st.out = int(n)
		}
		if st.out == FromData {
			st.out = agentOutput
		}
		if ms, ok := r["think_ms"].(float64); ok && ms >= 0 && ms < 1e9 {
			st.think = time.Duration(ms * float64(time.Millisecond))
		}
		branches, _ := r["branches"].([]any)
		for _, b := range branches {
			inner, _ := b.([]any)
			sub, err := parseSteps(inner, cfg, depth+1)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", i+1, err)
			}
			st.branches = append(st.branches, sub)
		}
		script = append(script, st)
	}
	return script, nil
}

// agentOutput is how long an agent's answers are when nobody says: SGLang's default.
const agentOutput = 220
