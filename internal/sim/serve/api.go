package serve

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// failure renders an error as vLLM does.
func failure(e *apiError) answer {
	var param any
	if e.param != "" {
		param = e.param
	}
	return jsonAnswer(e.status, map[string]any{"error": struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   any    `json:"param"`
		Code    int    `json:"code"`
	}{e.message, e.kind, param, e.status}})
}

func jsonAnswer(status int, v any) answer {
	b, err := json.Marshal(v)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return answer{status: status, body: b}
}

func requestID(h http.Header) string { return h.Get("X-Request-Id") }

// route answers everything but completions, which it returns decoded.
func (s *Server) route(req *http.Request, body []byte) (*genCall, *answer) {
	path, steering := req.URL.Path, strings.HasPrefix(req.URL.Path, "/sim/")
	e, ok := s.endpoints[path]
	var refused error
	if steering {
		refused = s.steers(req)
	}
	var a answer
	switch {
	case !ok:
		a = jsonAnswer(http.StatusNotFound, map[string]string{"detail": "Not Found"})
	case e.method != req.Method && e.also != req.Method:
		a = jsonAnswer(http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
	case refused != nil:
		a = jsonAnswer(http.StatusForbidden, map[string]string{"error": refused.Error()})
	case (steering || strings.HasPrefix(path, "/v1")) && !s.allowed(req.Header):
		a = jsonAnswer(http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
	case e.answer != nil:
		a = e.answer(body)
	case s.pacer.dead.Load() != nil:
		a = failure(s.pacer.dead.Load().api())
	default:
		call, err := s.decode(body, e)
		if err == nil {
			return call, nil
		}
		var api *apiError
		if !errors.As(err, &api) {
			api = badRequest("", "%v", err)
		}
		a = failure(api)
	}
	return nil, &a
}

func (s *Server) allowed(h http.Header) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	return subtle.ConstantTimeCompare([]byte(h.Get("Authorization")), []byte("Bearer "+s.cfg.APIKey)) == 1
}

// endpoint is one path; answer is nil for completions.
type endpoint struct {
	method string
	also   string // a second method
	chat   bool
	native bool
	answer func(body []byte) answer
}

func (s *Server) routes() map[string]endpoint {
	get := func(f func() answer) endpoint {
		return endpoint{method: http.MethodGet, answer: func([]byte) answer { return f() }}
	}
	post := func(f func([]byte) answer) endpoint { return endpoint{method: http.MethodPost, answer: f} }
	nothing := func([]byte) answer { return answer{status: http.StatusOK} }
	return map[string]endpoint{
		"/v1/completions":      {method: http.MethodPost},
		"/v1/chat/completions": {method: http.MethodPost, chat: true},
		"/v1/models":           get(s.models),
		"/health":              get(s.health),
		"/ping":                get(s.health),
		"/version":             get(func() answer { return jsonAnswer(200, map[string]string{"version": s.cfg.Version}) }),
		"/load":                get(func() answer { return jsonAnswer(200, map[string]int64{"server_load": s.active.Load()}) }),
		"/metrics":             get(s.prometheus),
		"/tokenize":            post(s.tokenize),
		"/detokenize":          post(s.detokenize),
		"/reset_prefix_cache":  post(s.resetPrefixCache),
		"/start_profile":       post(nothing),
		"/stop_profile":        post(nothing),
		"/sim/stats":           get(func() answer { return jsonAnswer(200, s.Stats()) }),
		"/sim/truth":           get(s.truthLines),
		"/sim/faults":          {method: http.MethodPost, also: http.MethodDelete, answer: s.faults},
		"/sim/engine":          post(s.harm),
		"/server_info":         get(s.serverInfo),
		"/generate":            {method: http.MethodPost, native: true},
		"/health_generate":     get(s.health),
		"/get_server_info":     get(s.serverInfo),
		"/get_model_info":      get(s.modelInfo),
		"/flush_cache":         {method: http.MethodPost, also: http.MethodGet, answer: s.flushCache},
	}
}

// decode reads a completion call and checks it against the model.
func (s *Server) decode(body []byte, e endpoint) (*genCall, error) {
	var c *genCall
	var err error
	if e.native {
		c, err = decodeNative(body, s.needIDs)
	} else {
		c, err = decodeCall(body, e.chat, s.needIDs)
	}
	if err != nil {
		return nil, err
	}
	if c.n > s.choices {
		return nil, badRequest("n", "this server answers with at most %d choices, n=%d was asked for", s.choices, c.n)
	}
	if c.model == "" {
		c.model = s.cfg.Models[0]
	}
	if c.adapter, err = s.known(c.model); err != nil {
		return nil, err
	}
	room := s.cfg.MaxModelLen - c.promptTokens
	if room < 1 || c.maxTokens > room {
		return nil, badRequest("max_tokens",
			"This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %d input tokens.",
			s.cfg.MaxModelLen, c.maxTokens, c.promptTokens)
	}
	if c.maxTokens == 0 {
		c.maxTokens = room
	}
	return c, nil
}

// known returns which adapter a model name stands for: 0 for the model itself.
func (s *Server) known(model string) (int, error) {
	for _, m := range s.cfg.Models {
		if m == model {
			return 0, nil
		}
	}
	if i := slices.Index(s.cfg.Adapters, model); i >= 0 {
		return i + 1, nil
	}
	return 0, &apiError{
		status: http.StatusNotFound, kind: "NotFoundError", param: "model",
		message: fmt.Sprintf("The model `%s` does not exist.", model),
	}
}

func (s *Server) models() answer {
	type entry struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Created     int64  `json:"created"`
		OwnedBy     string `json:"owned_by"`
		Root        string `json:"root"`
		Parent      any    `json:"parent"`
		MaxModelLen int    `json:"max_model_len"`
	}
	list := make([]entry, 0, len(s.cfg.Models))
	for _, m := range s.cfg.Models {
		list = append(list, entry{m, "model", s.created(), "spate", s.cfg.Root, nil, s.cfg.MaxModelLen})
	}
	for _, m := range s.cfg.Adapters {
		list = append(list, entry{m, "model", s.created(), "spate", m, s.cfg.Models[0], s.cfg.MaxModelLen})
	}
	return jsonAnswer(200, map[string]any{"object": "list", "data": list})
}

func (s *Server) tokenize(body []byte) answer {
	var b struct {
		Model    string        `json:"model"`
		Prompt   *string       `json:"prompt"`
		Messages []chatMessage `json:"messages"`
		Ask      *bool         `json:"add_generation_prompt"`
		Strings  bool          `json:"return_token_strs"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return failure(badRequest("", "the body is not the JSON object expected here: %v", err))
	}
	var text string
	switch {
	case b.Prompt != nil:
		text = *b.Prompt
	case b.Messages != nil:
		var err error
		if text, err = renderChat(b.Messages, b.Ask == nil || *b.Ask); err != nil {
			return failure(badRequest("messages", "%v", err))
		}
	default:
		return failure(badRequest("prompt", "prompt or messages is needed"))
	}
	ids := encode([]int32{}, text)
	out := map[string]any{"count": len(ids), "max_model_len": s.cfg.MaxModelLen, "tokens": ids, "token_strs": nil}
	if b.Strings {
		strs := make([]string, len(ids))
		for i, id := range ids {
			strs[i] = string(appendToken(nil, id))
		}
		out["token_strs"] = strs
	}
	return jsonAnswer(200, out)
}

func (s *Server) detokenize(body []byte) answer {
	var b struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return failure(badRequest("tokens", "the body is not the JSON object expected here: %v", err))
	}
	return jsonAnswer(200, map[string]string{"prompt": decode(b.Tokens)})
}

func (s *Server) resetPrefixCache([]byte) answer {
	ok := false
	s.pacer.ask(func(e Engine) { ok = e.ResetPrefixCache() })
	return jsonAnswer(200, map[string]bool{"success": ok})
}

func (s *Server) truthLines() answer {
	var b []byte
	for _, t := range s.truth.All() {
		b = t.appendJSON(b)
	}
	return answer{status: 200, ctype: "application/jsonl", body: b}
}
