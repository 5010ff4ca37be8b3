package workload

import (
	"errors"
	"fmt"
	"sort"

	"spate/internal/call"
	"spate/internal/load/lengths"
	"spate/internal/rng"
)

var sharedDataset = Dataset{
	Name: "generated-shared-prefix", AllRows: true, About: "SGLang's groups of questions with a system prompt each", Exact: true, Alike: true,
	open: newShared,
	resolve: func(r *Run) {
		if !r.Has("num-prompts") {
			r.N = 0 // as many as the groups have
		}
	},
	fill: func(c *Config, r *Run) {
		g := &r.Shared
		c.Prefix, c.Suffix, c.Groups, c.PerGroup, c.Output = g.SystemLen, g.QuestionLen, g.Groups, g.PerGroup, g.OutputLen
		c.GroupRatio, c.NoShuffle = g.RangeRatio, c.NoShuffle || g.Ordered
		if g.Distribution == "zipf" {
			c.Zipf = g.ZipfAlpha
		}
		if r.Has("multi-turn-turns") {
			r.Talk.fill(c)
			c.Talk.Turns, _ = lengths.ParseDist(r.Talk.Turns) // checked before
		}
	},
	check: func(r *Run, c Problems) {
		g := &r.Shared
		c.Want(g.Groups > 0, "gsp-num-groups", "%d is not above 0", g.Groups)
		c.Want(g.PerGroup > 0, "gsp-prompts-per-group", "%d is not above 0", g.PerGroup)
		c.Want(g.SystemLen >= 0, "gsp-system-prompt-len", "%d is negative", g.SystemLen)
		c.Want(g.QuestionLen > 0, "gsp-question-len", "%d is not above 0", g.QuestionLen)
		c.Want(g.OutputLen > 0, "gsp-output-len", "%d is not above 0", g.OutputLen)
		c.Want(g.RangeRatio >= 0 && g.RangeRatio <= 1, "gsp-range-ratio", "%v is not between 0 and 1", g.RangeRatio)
		c.Want(g.ZipfAlpha > 0, "gsp-zipf-alpha", "%v is not above 0", g.ZipfAlpha)
	},
}

// Shared configures generated-shared-prefix.
type Shared struct {
	Groups       int     `json:"num_groups"`
	PerGroup     int     `json:"prompts_per_group"`
	SystemLen    int     `json:"system_prompt_len"`
	QuestionLen  int     `json:"question_len"`
	OutputLen    int     `json:"output_len"`
	RangeRatio   float64 `json:"range_ratio"` // lengths between this share and all of what was asked
	Ordered      bool    `json:"ordered"`
	Distribution string  `json:"group_distribution"` // uniform or zipf
	ZipfAlpha    float64 `json:"zipf_alpha"`
}

func (g *Shared) flags() []Flag {
	return []Flag{
		{Name: "gsp-num-groups", Default: "64", To: &g.Groups, Help: "number of system prompts of generated-shared-prefix"},
		{Name: "gsp-prompts-per-group", Default: "16", To: &g.PerGroup, Help: "questions for each system prompt"},
		{Name: "gsp-system-prompt-len", Default: "2048", To: &g.SystemLen, Meta: "TOKENS", Help: "length of a system prompt", Prompt: true},
		{Name: "gsp-question-len", Default: "128", To: &g.QuestionLen, Meta: "TOKENS", Help: "length of a question", Prompt: true},
		{Name: "gsp-output-len", Default: "256", To: &g.OutputLen, Meta: "TOKENS", Help: "output length of generated-shared-prefix", Like: outputLen},
		{Name: "gsp-range-ratio", Default: "1.0", To: &g.RangeRatio, Help: "lengths of generated-shared-prefix are drawn between this share of the given length and the given length"},
		{
			Name: "gsp-send-routing-key",
			Help: "send each request's group in the header x-smg-routing-key; --header NAME={group} sends it in another header, and {session} stands for the conversation",
		},
		{Name: "gsp-fast-prepare", To: new(bool), Help: "accepted for scripts; prompts are made while the run goes on"},
		{Name: "gsp-ordered", To: &g.Ordered, Help: "send group after group instead of shuffled"},
		{Name: "gsp-group-distribution", Default: "uniform", To: &g.Distribution, Choices: []string{"uniform", "zipf"}, Help: "how often groups are asked"},
		{Name: "gsp-zipf-alpha", Default: "1.0", To: &g.ZipfAlpha, Help: "with zipf, the group of rank r is asked r^-alpha as often as the first"},
	}
}

// shared is SGLang's generated-shared-prefix: groups with a system prompt each, and questions that go
// with them. Texts are the same whether groups are asked alike or by Zipf's law: who asks is drawn
// apart from what is asked.
type shared struct {
	remarks
	writer
	cfg     Config
	systems []string
	group   []int32 // of each question
	outs    []int32
	order   []int32
	at      int
}

func newShared(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	g := &shared{cfg: cfg}
	switch {
	case cfg.Groups < 1 || cfg.PerGroup < 1:
		return nil, 0, fmt.Errorf("%d groups of %d prompts: at least 1 of each is needed", cfg.Groups, cfg.PerGroup)
	case cfg.Output == FromData:
		return nil, 0, errors.New("generated prompts have no output length of their own: give one")
	case !(cfg.GroupRatio >= 0 && cfg.GroupRatio <= 1):
		return nil, 0, fmt.Errorf("range ratio %v is outside [0, 1]: lengths are drawn between ratio*length and length", cfg.GroupRatio)
	case !(cfg.Zipf >= 0):
		return nil, 0, fmt.Errorf("an exponent of %v for Zipf's law is negative", cfg.Zipf)
	}
	s := &scratch{}
	if tok == nil {
		g.noTokenizer(&cfg)
	} else {
		s.enc = tok.NewEncoder()
	}
	if err := g.prepare(tok, &cfg); err != nil {
		return nil, 0, err
	}
	for i := range cfg.Groups {
		n := g.length("system length", i, cfg.Prefix)
		g.systems = append(g.systems, salted(cfg.Salt, g.text(s, "system", n, uint64(i))))
	}
	n := g.deal()
	if cfg.Talk.Turns.Law != "" {
		d, err := g.talk(tok)
		return d, n, err
	}
	return g, n, nil
}

// talk makes conversations of the questions: each goes on with further ones, and carries the answers so far.
func (g *shared) talk(tok Tokenizer) (*dialogs, error) {
	t, err := emptyTalk(g.cfg, tok)
	if err != nil {
		return nil, err
	}
	for _, note := range g.remarks.notes() {
		t.add(note)
	}
	t.cfg.Salt = "" // which the system prompts have
	if !g.cfg.Chat {
		t.add(oneText)
	}
	t.group = func(i int) string { return fmt.Sprint(g.group[g.order[i%len(g.order)]]) }
	t.length = func(i int) int { n, _ := t.turns(int(g.order[i%len(g.order)])); return n }
	t.scripts = func(s *scratch, i int) []step {
		at := int(g.order[i%len(g.order)])
		turns, draws := t.turns(at)
		script := make([]step, turns)
		for k := range script {
			text := g.question(&t.writer, s, at, k)
			if k == 0 {
				text = g.systems[g.group[at]] + "\n\n" + text
			}
			script[k] = step{say: []message{{"user", text}}, out: int(g.outs[at]), think: t.thought(draws)}
		}
		return script
	}
	return t, nil
}

// question is what is asked in a turn of the i-th conversation; the first is the same however many there are.
func (g *shared) question(w *writer, s *scratch, i, turn int) string {
	n := g.length("question length", i, g.cfg.Suffix)
	if turn == 0 {
		return w.text(s, "question", n, uint64(i))
	}
	return w.text(s, "further question", n, uint64(i), uint64(turn))
}

// deal gives every question to a group and fixes the order.
func (g *shared) deal() int {
	n := g.cfg.Groups * g.cfg.PerGroup
	who := rng.New(g.cfg.Seed, "groups by Zipf")
	cum := zipf(g.cfg.Groups, g.cfg.Zipf)
	for i := range n {
		group := i / g.cfg.PerGroup
		if g.cfg.Zipf > 0 {
			group = min(sort.SearchFloat64s(cum, who.Float64()*cum[len(cum)-1]), g.cfg.Groups-1)
		}
		g.group = append(g.group, int32(group))
		g.order = append(g.order, int32(i))
		g.outs = append(g.outs, int32(g.length("output length", i, g.cfg.Output)))
	}
	if !g.cfg.NoShuffle {
		rng.New(g.cfg.Seed, "order of groups").Shuffle(n, func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
	}
	switch {
	case g.cfg.N > 0 && g.cfg.N < n:
		return g.cfg.N
	case g.cfg.N > n && !g.cfg.Endless:
		g.add(fmt.Sprintf("%d requests are sent, not %d: there are %d groups of %d prompts", n, g.cfg.N, g.cfg.Groups, g.cfg.PerGroup))
	}
	return n
}

// zipf are the running sums of rank^-alpha.
func zipf(n int, alpha float64) []float64 {
	cum := make([]float64, n)
	sum := 0.0
	for i := range cum {
		sum += rng.Pow(float64(i+1), -alpha)
		cum[i] = sum
	}
	return cum
}

// length draws a length between ratio*n and n.
func (g *shared) length(name string, i, n int) int {
	low := max(1, int(float64(n)*g.cfg.GroupRatio))
	if low >= n {
		return n
	}
	return low + rng.New(g.cfg.Seed, name, uint64(i)).IntN(n-low+1)
}

func (g *shared) next() (job, state, error) {
	if g.at >= len(g.order) && !g.cfg.Endless {
		return job{}, done, nil
	}
	j := job{index: int(g.order[g.at%len(g.order)]), again: g.at >= len(g.order)}
	g.at++
	return j, issue, nil
}

func (g *shared) build(s *scratch, j job) (call.Request, bool, error) {
	question := g.question(&g.writer, s, j.index, 0)
	group := int(g.group[j.index])
	text := g.systems[group] + "\n\n" + question
	req := call.Request{In: s.count(text), MaxOut: int(g.outs[j.index]), Labels: map[string]string{"group": fmt.Sprint(group)}}
	req.Prompt = s.prompt(text, g.cfg.IDs)
	return req, true, nil
}

func (g *shared) settle(j job, req *call.Request, _ bool) error {
	markRepeat(j, req)
	return nil
}

func (g *shared) close() error { return nil }

func (g *shared) notes() []string { return append(g.remarks.notes(), g.writer.notes()...) }
