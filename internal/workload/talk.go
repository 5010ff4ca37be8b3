package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"spate/internal/call"
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

// Talk describes conversations (multi-turn, agentic).
type Talk struct {
	Turns    Dist // of made-up conversations
	NextIn   Dist // tokens of each user message after the first
	Think    Dist // seconds between an answer and the next message; none: what the file says, or nothing
	MaxTurns int  // of each conversation; 0 for all
}

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
	nextID  int
	at      int
	pool    sync.Pool // of scratch, for turns made when answers come

	mu      sync.Mutex
	waiting map[int]*thread // by the id of the request under way
	broken  int
}

func newTalk(cfg Config, tok Tokenizer) (*dialogs, int, error) {
	t := &dialogs{cfg: cfg, waiting: map[int]*thread{}}
	t.pool.New = func() any {
		s := &scratch{}
		if tok != nil {
			s.enc = tok.NewEncoder()
		}
		return s
	}
	if err := t.prepare(tok, cfg.Seed); err != nil {
		return nil, 0, err
	}
	if !cfg.Chat {
		t.add("the endpoint takes no messages: a conversation goes as one text, turn after turn")
	}
	for _, d := range []*Dist{&t.cfg.Talk.Turns, &t.cfg.Talk.NextIn, &t.cfg.Talk.Think} {
		if err := d.load(cfg.Open); err != nil {
			return nil, 0, err
		}
	}
	n := cfg.N
	if cfg.Path == "" {
		if tok == nil {
			t.add(wordsOnly)
		}
		if n <= 0 && !cfg.Endless {
			return nil, 0, errors.New("made-up conversations have no number of their own: give one with --num-prompts")
		}
		t.scripts = t.invent
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
		t.add(fmt.Sprintf("the file has %d conversations: some are held again", len(all)))
	}
	t.scripts = func(_ *scratch, i int) []step { return all[i%len(all)] }
	return t, n, nil
}

// invent makes up a conversation.
func (t *dialogs) invent(s *scratch, i int) []step {
	c := &t.cfg
	draws := rng.New(c.Seed, "turns", uint64(i))
	turns := 1
	if c.Talk.Turns.Law != "" {
		turns = int(c.Talk.Turns.length(draws))
	}
	if c.Talk.MaxTurns > 0 {
		turns = min(turns, c.Talk.MaxTurns)
	}
	var script []step
	for k := range turns {
		n := drawn(&c.InDist, c.Input, draws)
		if k > 0 && c.Talk.NextIn.Law != "" {
			n = int(c.Talk.NextIn.length(draws))
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

func drawn(d *Dist, fixed int, draws *rand.Rand) int {
	if d.Law == "" {
		return max(1, fixed)
	}
	return int(d.length(draws))
}

// thought draws a time to think.
func (t *dialogs) thought(draws *rand.Rand) time.Duration {
	if t.cfg.Talk.Think.Law == "" {
		return 0
	}
	return time.Duration(max(0, t.cfg.Talk.Think.draw(draws)) * float64(time.Second))
}

func (t *dialogs) next() (job, state, error) {
	j := job{index: t.at, thread: &thread{session: &session{name: fmt.Sprintf("s%d", t.at)}}}
	t.at++
	return j, issue, nil
}

// build makes a conversation's first request. Its ids follow when its place is known.
func (t *dialogs) build(s *scratch, j job) (call.Request, bool, error) {
	j.thread.script = t.scripts(s, j.index)
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

// readScripts reads conversations: ShareGPT's and chat messages by row, or agents' sessions.
func readScripts(cfg *Config) ([][]step, error) {
	var all [][]step
	files, err := tableFiles(cfg.Open, cfg.Path, "", "")
	if err != nil {
		return nil, err
	}
	n := 0
	for row, err := range concat(cfg.Open, files) {
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
func parseScripts(row fields, cfg *Config, number int) ([][]step, error) {
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
			script[i].think = time.Duration(max(0, cfg.Talk.Think.draw(draws)) * float64(time.Second))
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
		if n, ok := r["output_tokens"].(float64); ok && n >= 1 && n <= maxLength && cfg.Output == FromData {
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
