package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"spate/internal/nearest"
)

func (f *Failure) api() *apiError {
	e := &apiError{status: f.Status, kind: f.Type, message: f.Message}
	if e.status == 0 {
		e.status = http.StatusInternalServerError
	}
	if e.kind == "" {
		e.kind = "InternalServerError"
	}
	return e
}

// failureEvent is a failure as it appears inside a stream.
func failureEvent(b []byte, f *Failure) []byte {
	b = append(b, "data: "...)
	b = append(b, failure(f.api()).body...)
	return append(b, "\n\n"...)
}

// health answers 503 once the engine is dead.
func (s *Server) health() answer {
	if s.pacer.dead.Load() != nil {
		return answer{status: http.StatusServiceUnavailable}
	}
	return answer{status: http.StatusOK}
}

// SetScript replaces the rules that requests from now on are judged by. Outages are those the
// server was started with.
func (s *Server) SetScript(sc *Script) {
	if sc == nil {
		sc = &Script{}
	}
	s.script.Store(sc)
}

// faults replaces the rules: an empty body clears them, a list of flags {"faults": ["cut,at=5"]} or
// a script in one of its two forms sets them. It answers with the number of rules.
func (s *Server) faults(body []byte) answer {
	body = bytes.TrimSpace(body)
	var flags struct {
		Faults []string `json:"faults"`
	}
	sc := &Script{}
	var err error
	switch {
	case len(body) == 0:
	case json.Unmarshal(body, &flags) == nil && flags.Faults != nil:
		for _, f := range flags.Faults {
			r, ferr := ParseFault(f)
			err = errors.Join(err, ferr)
			sc.Rules = append(sc.Rules, r)
		}
	default:
		sc, err = ParseScript(body)
	}
	if err != nil {
		return failure(badRequest("faults", "%v", err))
	}
	s.SetScript(sc)
	return jsonAnswer(200, map[string]int{"rules": len(sc.Rules)})
}

var harms = []string{"die", "oom", "stall", "lose", "revive"}

// harm does something to the engine: {"action": "die"}, {"action": "oom"}, {"action": "stall",
// "for": "2s"}, {"action": "lose", "rate": 0.1}, {"action": "revive"}.
func (s *Server) harm(body []byte) answer {
	var b struct {
		Harm
		For string `json:"for"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return failure(badRequest("", "the body is not the JSON object expected here: %v", err))
	}
	if !slices.Contains(harms, b.Kind) {
		return failure(badRequest("action", "action %q is not one of %v%s", b.Kind, harms, nearest.Hint(b.Kind, harms)))
	}
	h := b.Harm
	if b.For != "" {
		d, err := parseDur(b.For)
		if err != nil {
			return failure(badRequest("for", "%v", err))
		}
		h.For = d
	}
	if err := s.Harm(h); err != nil {
		return failure(badRequest("action", "%v", err))
	}
	return jsonAnswer(200, map[string]string{"action": h.Kind})
}

// Harm does something to the engine while it runs.
func (s *Server) Harm(h Harm) error {
	err := errors.New("the server has stopped")
	s.pacer.ask(func(e Engine) {
		m, ok := e.(Mortal)
		if !ok {
			err = errors.New("a timetable has no engine to disturb: give --model and --gpu, or a profile")
			return
		}
		err = m.Harm(Mono(), h)
	})
	return err
}

// Do runs f with the engine on the thread that owns it; false when the server has stopped.
func (s *Server) Do(f func(e Engine)) bool { return s.pacer.ask(f) }

// State returns the engine's gauges and counters.
func (s *Server) State() EngineState {
	var st EngineState
	s.pacer.ask(func(e Engine) { st = e.State() })
	return st
}

// serverInfo answers SGLang's /get_server_info and vLLM's /server_info: what the server was started
// with, and what its engine is doing.
func (s *Server) serverInfo() answer {
	st := s.State()
	out := map[string]any{
		"model_path": s.cfg.Root, "served_model_name": s.cfg.Models[0], "context_length": s.cfg.MaxModelLen, "version": s.cfg.Version,
		"internal_states": []map[string]any{{
			"num_running_reqs": st.Running, "num_waiting_reqs": st.Waiting, "preemptions": st.Preemptions,
			"memory_usage": map[string]any{"token_capacity": st.CacheCapacity * max(st.BlockSize, 1)},
		}},
	}
	for k, v := range s.cfg.Info {
		out[k] = v
	}
	return jsonAnswer(200, out)
}

// modelInfo answers SGLang's /get_model_info.
func (s *Server) modelInfo() answer {
	return jsonAnswer(200, map[string]any{"model_path": s.cfg.Root, "tokenizer_path": s.cfg.Root, "is_generation": true})
}

// flushCache is SGLang's way to empty the prefix cache. It is refused while requests run.
func (s *Server) flushCache([]byte) answer {
	ok := false
	s.pacer.ask(func(e Engine) {
		st := e.State()
		ok = st.Running+st.Waiting == 0 && e.ResetPrefixCache()
	})
	status, text := http.StatusOK, "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n"
	if !ok {
		status = http.StatusBadRequest
	}
	return answer{status: status, ctype: "text/plain; charset=utf-8", body: []byte(text)}
}
