package predict

import (
	"fmt"
	"time"

	"spate/internal/console"
	"spate/internal/load/build"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
)

// Local makes prompts with what lies on this machine: no server is asked.
type Local struct {
	Getenv func(string) string
	Home   string
	Note   func(format string, args ...any) // nil: nobody is told
}

// On is this machine, as a command sees it.
func On(p console.Process) Local { return Local{Getenv: p.Getenv, Home: p.Home(), Note: p.Note} }

func (l Local) note(format string, args ...any) {
	if l.Note != nil {
		l.Note("note: "+format, args...)
	}
}

// RefusedError says that settings cannot be predicted: the user has to change them.
type RefusedError struct{ err error }

func (e *RefusedError) Error() string { return e.err.Error() }

// Unwrap is why.
func (e *RefusedError) Unwrap() error { return e.err }

// Load is what bench would send, for a simulated server. The error is a *RefusedError.
func (l Local) Load(c *config.Bench) (*Load, error) {
	var all []*Load
	for name, one := range c.Each() {
		load, err := l.one(one, config.Mark(name), len(all))
		if err != nil {
			return nil, &RefusedError{fmt.Errorf("%s%w", config.Mark(name), err)}
		}
		all = append(all, load)
	}
	return join(c, all), nil
}

// one is the load of the tenant at a place.
func (l Local) one(c *config.Bench, mark string, place int) (*Load, error) {
	told := l
	told.Note = func(format string, args ...any) { l.note("%s%s", mark, fmt.Sprintf(format, args...)) }
	if n := c.Load.NumWarmups; n > 0 || c.Load.WarmupDuration > 0 {
		told.Note("warm-up requests are not predicted; the server begins idle")
	}
	prompts, err := told.prompts(c)
	if err != nil {
		return nil, err
	}
	prompts.place = uint64(place)
	return NewLoad(c, prompts)
}

// prompts are what prompts are made with.
func (l Local) prompts(c *config.Bench) (Prompts, error) {
	out := Prompts{Look: func(h *workload.HF) { h.Look(l.Getenv, l.Home) }}
	tok, err := build.Tokenizer(&c.Model, l.Getenv, l.Home)
	if err != nil || tok == nil {
		if err == nil && (c.Dataset.Path != "" || c.Dataset.Name == config.DatasetSonnet) { // which brings its own text
			l.Note("no tokenizer at hand (--tokenizer PATH): lengths are estimates by words")
		}
		return out, err
	}
	out.Tokenizer = tok
	out.Template, err = build.Template(tok, c.Body.ChatTemplate, time.Now)
	if err != nil {
		l.Note("the chat template cannot be used: %v", err)
	}
	return out, nil
}
