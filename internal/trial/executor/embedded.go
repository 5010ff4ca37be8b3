package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"spate/internal/settings/config"
	"spate/internal/sim/instance"
	"spate/internal/sim/serve"
	"spate/internal/sim/wall"
)

// embed starts the embedded server and points the settings at it; end stops it. Of a run of many nothing is said.
func (m *Measured) embed(ctx context.Context, cfg *config.Bench) (end func(), err error) {
	sc, title, err := m.embeddedConfig(cfg)
	if err != nil { // a word on the command line names nothing
		return nil, config.Problems{{Text: "--sim: " + err.Error()}}
	}
	srv, err := serve.Start(ctx, sc)
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	cfg.Target.BaseURLs = []string{srv.URL()}
	if m.many() {
		return func() { _ = srv.Stop() }, nil // the run is over: nothing depends on how it ends
	}
	m.Note("embedded server at %s: %s", srv.URL(), title)
	return func() {
		if st := srv.Stats(); st.Lag.Lagging {
			m.Note("note: the embedded server was late (p99 %v): this machine is too busy for it, and the figures include that delay", st.Lag.P99.Round(roundLag))
		}
		_ = srv.Stop() // as above
	}, nil
}

// embeddedConfig is the embedded server's settings, and what it is in words.
func (m *Measured) embeddedConfig(cfg *config.Bench) (sc serve.Config, title string, err error) {
	s := &cfg.Sim
	if cfg.Timetabled() {
		sc = timetable(cfg)
		title = fmt.Sprintf("TTFT %v, ITL %v (a timetable, not a model)", s.TTFT, s.ITL)
	} else {
		in, err := instance.Named(m.ReadFile, instance.Options{
			Profile: s.Profile, Scale: 1, Seed: uint64(cfg.Load.Seed),
			Answers: wall.Answers{Len: s.OutputLen, Vary: s.OutputVary, Reasoning: s.Reasoning, ToolTokens: s.ToolTokens},
		})
		if err != nil {
			return sc, "", err
		}
		sc, title = in.Serve, in.Title
	}
	sc.PromptTokensDetails, sc.APIKey = true, cfg.Target.APIKey.Reveal()
	sc.Models = append(models(cfg), sc.Models...)
	sc.Script, err = serve.ReadScript(m.ReadFile, s.Script, s.Faults)
	return sc, title, err
}

func timetable(cfg *config.Bench) serve.Config {
	s := &cfg.Sim
	return serve.Config{Timetable: serve.TimetableConfig{
		TTFT: s.TTFT, ITL: s.ITL, ChunkTokens: s.TokensPerChunk, Jitter: s.Jitter, TTFTSpread: s.TTFTSpread,
		Prefill: s.Prefill, OutputLen: s.OutputLen, OutputVary: s.OutputVary, MaxRunning: s.MaxRunning,
		Reasoning: s.Reasoning, ToolTokens: s.ToolTokens, PrefixCache: s.PrefixCache, Seed: uint64(cfg.Load.Seed),
	}}
}

// models are the names a user's flags expect the server to answer to, those of all tenants.
func models(cfg *config.Bench) []string {
	var names []string
	for _, c := range cfg.Each() {
		own := append([]string{cmp.Or(c.Model.ServedName, c.Model.ID)}, c.Model.LoRAModules...)
		for _, n := range own {
			if n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}
