package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/load/lengths"
	"spate/internal/rng"
)

// Follower is a source some of whose requests wait for the answers to others: the turns of a conversation.
type Follower interface {
	Source
	// Follow is told how a request ended, with the answer's text still in the record, and gives the requests that
	// become due by it. It is called from several goroutines at once.
	Follow(rec *call.Record) []Turn
}

// Turn is a request that follows an answer.
type Turn struct {
	Request call.Request
	After   time.Duration // from the answer's end until it is due: the time its user thinks
}

// Follow gives the next turns of conversations; for other datasets there are none.
func (s *Stream) Follow(rec *call.Record) []Turn {
	t, ok := s.ds.(*dialogs)
	if !ok {
		return nil
	}
	turns := t.follow(rec)
	for i := range turns {
		turns[i].Request.Name = s.prefix + fmt.Sprint(turns[i].Request.ID)
		turns[i].Request.Phase = rec.Phase
	}
	return turns
}

var multiTurnDataset = Dataset{
	Name: "multi-turn", Path: OptionalPath, AllRows: true, About: "conversations with the server's own answers, from a file or made up", Talks: true, Alike: true,
	open: newTalk, resolve: resolveTalk,
	fill: func(c *Config, r *Run) {
		fillTalk(c, r)
		if r.Path != "" {
			return
		}
		c.Talk.Turns, _ = lengths.ParseDist(r.Talk.Turns) // checked before
		c.Talk.NextIn, _ = lengths.ParseDist(r.Talk.NextLen)
		c.Input, c.Output, c.Prefix = r.Random.InputLen, r.Random.OutputLen, r.Random.PrefixLen
	},
}

var agenticDataset = Dataset{
	Name: "agentic", Path: NeedsPath, AllRows: true, About: "agents' sessions with sub-agents", Talks: true, Alike: true,
	open: newTalk, fill: fillTalk, resolve: resolveTalk,
}

func resolveTalk(r *Run) {
	if r.Path != "" && !r.Has("num-prompts") {
		r.N = 0 // every conversation of the file
	}
}

// fillTalk: answers are as long as the file says unless a length is asked for.
func fillTalk(c *Config, r *Run) {
	r.Talk.fill(c)
	if c.Output = FromData; r.OutputLen != nil {
		c.Output = *r.OutputLen
	}
}

// Conversations configures multi-turn and agentic: laws are as ParseDist reads them.
type Conversations struct {
	On       bool   `json:"-"` // --multi-turn, which resolving turns into the dataset's name
	Turns    string `json:"turns"`
	NextLen  string `json:"next_len"`
	Think    string `json:"think_time_s,omitempty"`
	MaxTurns int    `json:"max_turns"`
}

func (t *Conversations) flags() []Flag {
	return []Flag{
		{Name: "multi-turn", To: &t.On, Help: "conversations: the same as --dataset-name multi-turn, from --dataset-path where one is given"},
		{
			Name: "multi-turn-turns", Default: "4", To: (*Law)(&t.Turns), Meta: "COUNT",
			Help: "turns of generated conversations, and of generated-shared-prefix when given; or a distribution, as for --input-len", Also: []string{"conversation-turn-mean", "gsp-num-turns"},
		},
		{
			Name: "multi-turn-next-len", Default: "64", To: (*Law)(&t.NextLen), Meta: "TOKENS",
			Help: "length of a user's message after the first turn, which has --random-input-len; --random-prefix-len is the length of a system prompt that all conversations share",
		},
		{
			Name: "think-time", To: (*ThinkTime)(&t.Think), Meta: "TIME",
			Help: "time between an answer and the next turn: 2s, or a distribution in seconds such as exponential(2); without it, what the file says, or none",
			Also: []string{"conversation-turn-delay"},
		},
		{Name: "max-turns", Default: "0", To: &t.MaxTurns, Help: "end conversations after this many turns; 0 is no limit", Also: []string{"agentic-max-turns"}},
	}
}

func (t *Conversations) fill(c *Config) {
	c.Talk.Think, _ = lengths.ParseDist(t.Think) // checked before; none for an empty one
	c.Talk.MaxTurns = t.MaxTurns
}

// Talk describes conversations (multi-turn, agentic).
type Talk struct {
	Turns    lengths.Dist // of made-up conversations
	NextIn   lengths.Dist // tokens of each user message after the first
	Think    lengths.Dist // seconds between an answer and the next message; none: what the file says, or nothing
	MaxTurns int          // of each conversation; 0 for all
}

const oneText = "the endpoint takes no messages: a conversation is sent as one text, turn after turn"

// step is one request of a script: what is said, how much is to be answered, and who works on the answer
// before the conversation goes on.
type step struct {
	say      []message
	out      int // tokens; FromData with an answer in the file
	answer   string
	think    time.Duration // before it is said
	branches [][]step      // sub-agents that begin with the answer and end before the next step
}

// message is a chat message; Content is text, or whatever else the file has.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

func (m message) text() string {
	if s, ok := m.Content.(string); ok {
		return s
	}
	parts, _ := m.Content.([]any)
	return strings.Join(said(parts), "\n")
}

// thread is a conversation under way, or a sub-agent of one.
type thread struct {
	script  []step
	at      int
	history []message
	parent  *thread
	waits   int // sub-agents at work
	session *session
	branch  string
	group   string // of conversations that begin alike
	others  bool   // another worker holds it
}

// session is what the threads of one conversation share.
type session struct {
	name   string
	nextID int
	over   bool // a request failed: nothing more is sent
}

// dialogs sends conversations: each request carries all that was said before it, the server's own answers
// included. The first turns are the stream's requests; each answer gives the next.
type dialogs struct {
	remarks
	writer
	cfg     Config
	scripts func(s *scratch, i int) []step // of conversation i
	length  func(i int) int                // how many requests it has, without making them
	group   func(i int) string             // it belongs to; nil for none
	nextID  int
	at      int
	pool    sync.Pool // of scratch, for turns made when answers come

	mu      sync.Mutex
	waiting map[int]*thread // by the id of the request under way
	broken  int
}

// emptyTalk is ready but for what is said.
func emptyTalk(cfg Config, tok Tokenizer) (*dialogs, error) {
	t := &dialogs{cfg: cfg, waiting: map[int]*thread{}}
	t.pool.New = func() any {
		s := &scratch{}
		if tok != nil {
			s.enc = tok.NewEncoder()
		}
		return s
	}
	if err := t.prepare(tok, &cfg); err != nil {
		return nil, err
	}
	for _, d := range []*lengths.Dist{&t.cfg.Talk.Turns, &t.cfg.Talk.NextIn, &t.cfg.Talk.Think} {
		if err := lengths.Load(d, cfg.Open); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func newTalk(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	t, err := emptyTalk(cfg, tok)
	if err != nil {
		return nil, 0, err
	}
	if !cfg.Chat {
		t.add(oneText)
	}
	n := cfg.N
	if cfg.Path == "" {
		if tok == nil {
			t.noTokenizer(&cfg)
		}
		if n <= 0 && !cfg.Endless {
			return nil, 0, errors.New("nothing limits the number of generated conversations: give it with --num-prompts")
		}
		t.scripts = t.invent
		t.length = func(i int) int { n, _ := t.turns(i); return n }
		return t, n, nil
	}
	if tok == nil {
		t.add(noTokenizer)
	}
	all, err := readScripts(&t.cfg)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	if !cfg.NoShuffle && cfg.Dataset != "agentic" {
		rng.NewPython(cfg.Seed).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	if n <= 0 {
		n = len(all)
	}
	if n > len(all) && !cfg.Endless {
		t.add(fmt.Sprintf("the file has %d conversations: some are sent again", len(all)))
	}
	t.scripts = func(_ *scratch, i int) []step { return all[i%len(all)] }
	t.length = func(i int) int { return count(all[i%len(all)]) }
	return t, n, nil
}

// invent makes up a conversation.
func (t *dialogs) invent(s *scratch, i int) []step {
	c := &t.cfg
	turns, draws := t.turns(i)
	var script []step
	for k := range turns {
		n := drawn(&c.InDist, c.Input, draws)
		if k > 0 && c.Talk.NextIn.Law != "" {
			n = int(c.Talk.NextIn.Length(draws))
		}
		st := step{out: drawn(&c.OutDist, c.Output, draws), think: t.thought(draws)}
		if k == 0 && c.Prefix > 0 {
			st.say = append(st.say, message{"system", t.text(s, "system", c.Prefix)})
		}
		st.say = append(st.say, message{"user", t.text(s, "user", n, uint64(i), uint64(k))})
		script = append(script, st)
	}
	return script
}

// turns draws how many turns a made-up conversation has, with the stream of what is drawn for it next.
func (t *dialogs) turns(i int) (int, *rand.Rand) {
	draws, n := rng.New(t.cfg.Seed, "turns", uint64(i)), 1
	if t.cfg.Talk.Turns.Law != "" {
		n = int(t.cfg.Talk.Turns.Length(draws))
	}
	if most := t.cfg.Talk.MaxTurns; most > 0 {
		n = min(n, most)
	}
	return max(1, n), draws
}

func drawn(d *lengths.Dist, fixed int, draws *rand.Rand) int {
	if d.Law == "" {
		return max(1, fixed)
	}
	return int(d.Length(draws))
}

// thought draws a time to think.
func (t *dialogs) thought(draws *rand.Rand) time.Duration {
	if t.cfg.Talk.Think.Law == "" {
		return 0
	}
	return time.Duration(max(0, t.cfg.Talk.Think.Draw(draws)) * float64(time.Second))
}

func (t *dialogs) next() (job, state, error) {
	j := job{index: t.at, thread: &thread{session: &session{name: sessionName(t.at)}}}
	t.at++
	return j, issue, nil
}

// build makes a conversation's first request. Its ids follow when its place is known.
func (t *dialogs) build(s *scratch, j job) (call.Request, bool, error) {
	j.thread.script = t.scripts(s, j.index)
	if t.group != nil {
		j.thread.group = t.group(j.index)
	}
	req, err := t.request(s, j.thread)
	return req, true, err
}

// settle gives a conversation the ids of all its requests.
func (t *dialogs) settle(j job, req *call.Request, _ bool) error {
	th := j.thread
	req.ID = t.nextID
	req.Name = t.cfg.NamePrefix + fmt.Sprint(req.ID)
	th.session.nextID = t.nextID + 1
	t.nextID += count(th.script)
	if th.others {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[req.ID] = th
	return nil
}

// count is the number of requests of a script.
func count(script []step) int {
	n := len(script)
	for _, st := range script {
		for _, b := range st.branches {
			n += count(b)
		}
	}
	return n
}

// request says the current step of a thread.
func (t *dialogs) request(s *scratch, th *thread) (call.Request, error) {
	st := &th.script[th.at]
	say := st.say
	if th.at == 0 && t.cfg.Salt != "" && len(say) > 0 {
		say = append([]message{{say[0].Role, salted(t.cfg.Salt, say[0].text())}}, say[1:]...)
	}
	th.history = append(th.history, say...)
	var b strings.Builder
	for i, m := range th.history {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(m.text())
	}
	text := b.String()
	req := call.Request{Session: th.session.name, Turn: th.at, In: s.count(text), MaxOut: st.out}
	if st.out == FromData {
		req.MaxOut = max(1, s.count(st.answer).N)
	}
	if th.branch != "" {
		req.Labels = map[string]string{"branch": th.branch}
	}
	if th.group != "" {
		req.Labels = map[string]string{"group": th.group}
	}
	if !t.cfg.Chat {
		req.Prompt = s.prompt(text, t.cfg.IDs)
		return req, nil
	}
	var err error
	req.Prompt.Messages, err = rawJSON(th.history)
	return req, err
}

// follow goes on with the conversation an answer belongs to. What is due is decided under the lock; the
// requests are made outside of it, because that takes time.
func (t *dialogs) follow(rec *call.Record) []Turn {
	speakers := t.answered(rec)
	if len(speakers) == 0 {
		return nil
	}
	s, _ := t.pool.Get().(*scratch)
	defer t.pool.Put(s)
	turns := make([]Turn, 0, len(speakers))
	for _, th := range speakers {
		req, err := t.request(s, th)
		if err != nil { // cannot be: what was read from JSON can be written as JSON
			continue
		}
		turns = append(turns, Turn{Request: req, After: th.script[th.at].think})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range turns {
		th := speakers[i]
		turns[i].Request.ID = th.session.nextID
		th.session.nextID++
		t.waiting[turns[i].Request.ID] = th
	}
	return turns
}

// answered takes an answer in and says who speaks next: the sub-agents it sets to work, or whoever waited.
func (t *dialogs) answered(rec *call.Record) []*thread {
	t.mu.Lock()
	defer t.mu.Unlock()
	th := t.waiting[rec.ID]
	delete(t.waiting, rec.ID)
	if th == nil {
		return nil
	}
	if rec.Outcome != call.OK && !th.session.over {
		th.session.over = true
		t.broken++
	}
	if th.session.over {
		return nil
	}
	th.history = append(th.history, message{"assistant", rec.Text})
	var subs []*thread
	for i, script := range th.script[th.at].branches {
		if len(script) > 0 {
			subs = append(subs, &thread{script: script, parent: th, session: th.session, branch: fmt.Sprintf("%s%d.%d", prefixed(th.branch), th.at, i)})
		}
	}
	if th.waits = len(subs); th.waits > 0 {
		return subs
	}
	return advance(th)
}

func prefixed(branch string) string {
	if branch == "" {
		return ""
	}
	return branch + "/"
}

// advance moves a thread to its next step, or its parent when it was the last of the sub-agents at work.
func advance(th *thread) []*thread {
	for {
		if th.at++; th.at < len(th.script) {
			return []*thread{th}
		}
		if th = th.parent; th == nil {
			return nil
		}
		if th.waits--; th.waits > 0 {
			return nil
		}
	}
}

func (t *dialogs) close() error { return nil }

func (t *dialogs) notes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.remarks.notes(), t.writer.notes()...)
	if t.broken > 0 {
		all = append(all, fmt.Sprintf("%d conversations ended early because a request of theirs failed", t.broken))
	}
	return all
}
