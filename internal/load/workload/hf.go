package workload

import (
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/load/media"
	"spate/internal/load/rows"
	"spate/internal/pytext"
	"spate/internal/rng"
)

var hubDataset = Dataset{
	Name: "hf", Path: NeedsPath, AllRows: true, About: "a dataset of the Hugging Face hub, as a local folder or file",
	open: newHub,
	fill: func(c *Config, r *Run) {
		h := &r.HF
		c.HF = HF{
			Name: h.Name, Subset: h.Subset, Split: h.Split, MinDistance: h.BlazeditMin, MaxDistance: h.BlazeditMax, MinSeconds: float64(h.ASRMinSec),
			Categories: strings.FieldsFunc(h.BFCLCategories, func(r rune) bool { return r == ',' || r == ' ' }),
		}
		if !h.ASRMaxSec.Inf() {
			c.HF.MaxSeconds = float64(h.ASRMaxSec)
		}
		if h.OutputLen != nil {
			c.Output = *h.OutputLen
		}
	},
	check: func(r *Run, c Problems) {
		h := &r.HF
		c.Want(h.OutputLen == nil || *h.OutputLen > 0, "hf-output-len", "must be above 0")
		c.Clash(h.BlazeditMin > h.BlazeditMax, "blazedit-min-distance", "blazedit-max-distance", "no edit distance is between them")
		c.Clash(h.ASRMinSec > h.ASRMaxSec, "asr-min-audio-len-sec", "asr-max-audio-len-sec", "no length is between them")
	},
}

// Hub configures the hf dataset and its special members.
type Hub struct {
	Subset         string        `json:"subset,omitempty"`
	Split          string        `json:"split,omitempty"`
	Name           string        `json:"name,omitempty"`
	OutputLen      *int          `json:"output_len"`
	BlazeditMin    float64       `json:"blazedit_min_distance"`
	BlazeditMax    float64       `json:"blazedit_max_distance"`
	ASRMinSec      pytext.Number `json:"asr_min_audio_len_sec"`
	ASRMaxSec      pytext.Number `json:"asr_max_audio_len_sec"`
	BFCLCategories string        `json:"bfcl_categories,omitempty"`
}

func (h *Hub) flags() []Flag {
	return []Flag{
		{Name: "hf-subset", VLLM: true, To: &h.Subset, Help: "subset of the dataset"},
		{Name: "hf-split", VLLM: true, To: &h.Split, Help: "split of the dataset, such as train or test"},
		{Name: "hf-name", VLLM: true, To: &h.Name, Help: "the dataset's id on the hub, which decides how its rows are read when the path does not say it"},
		{Name: "hf-output-len", VLLM: true, To: &h.OutputLen, Meta: "TOKENS", Help: "output length of hf; without it, the dataset's own", Like: outputLen},
		{Name: "blazedit-min-distance", Default: "0.0", VLLM: true, To: &h.BlazeditMin, Help: "least edit distance of Blazedit's rows"},
		{Name: "blazedit-max-distance", Default: "1.0", VLLM: true, To: &h.BlazeditMax, Help: "greatest edit distance of Blazedit's rows"},
		{Name: "asr-min-audio-len-sec", Default: "0.0", VLLM: true, To: &h.ASRMinSec, Meta: "SEC", Help: "leave out recordings of speech datasets that are shorter"},
		{Name: "asr-max-audio-len-sec", Default: "inf", VLLM: true, To: &h.ASRMaxSec, Meta: "SEC", Help: "leave out recordings of speech datasets that are longer"},
		{Name: "bfcl-categories", VLLM: true, To: &h.BFCLCategories, Help: "categories of function calls, such as simple,multiple"},
	}
}

// HF says which part of a Hugging Face dataset is read, and how.
type HF struct {
	Name        string   // the dataset's id, where its path does not say it
	Hubs        []string // folders the hub's files are kept in, by repository
	Tables      []string // folders the datasets library keeps its tables in
	Subset      string
	Split       string
	Whole       bool     // shuffle all rows at once instead of within a buffer
	Categories  []string // of function calls
	MinDistance float64  // edits of Blazedit
	MaxDistance float64
	MinSeconds  float64 // of recordings
	MaxSeconds  float64 // 0: no bound

	seconds func(*media.Medium) float64 // how long a recording plays; 0: not known
}

// hubBuffer is how many rows a streamed dataset is shuffled within, as the Hugging Face library does it.
const hubBuffer = 1000

// hub sends the rows of a local copy of a Hugging Face dataset.
type hub struct {
	remarks
	cfg  Config
	rule hubRule
	tmpl Template
	rows func() (rows.Row, error, bool)
	stop func()
	out  int

	buffer    []rows.Row
	draws     *rng.Numpy
	picks     []int64 // places in the buffer, drawn ahead as NumPy draws them
	filled    bool
	dry       bool
	unsettled int
	taken     []*candidate
	again     *rng.Python
	repeats   int
}

func newHub(cfg Config, tok Tokenizer, tmpl Template) (dataset, int, error) {
	asked := cfg.Path
	if err := cfg.locate(); err != nil {
		return nil, 0, err
	}
	h := &hub{cfg: cfg, tmpl: tmpl, draws: rng.NewNumpy(cfg.Seed)}
	h.cfg.HF.seconds = h.seconds
	if cfg.Path != asked {
		h.add(asked + " is read from " + cfg.Path)
	}
	rule, known := findRule(&cfg)
	split := cfg.HF.Split
	if split == "" {
		split = rule.split
	}
	files, err := rows.Files(cfg.Open, cfg.Path, cfg.HF.Subset, split)
	if err != nil {
		return nil, 0, err
	}
	all := rows.Concat(cfg.Open, files)
	if (rule.name == "BFCL" || rule.name == "chat requests") && !cfg.Chat {
		return nil, 0, fmt.Errorf("%s need a chat endpoint: use --backend openai-chat", map[bool]string{true: "function calls", false: "messages"}[rule.name == "BFCL"])
	}
	if rule.name == "BFCL" {
		all = rows.Interleave(cfg.Open, categories(files, cfg.HF.Categories))
	}
	h.rows, h.stop = iter.Pull2(all)
	if known {
		h.rule = rule
	} else if err := h.guess(); err != nil {
		h.stop()
		return nil, 0, err
	}
	if err := h.takes(); err != nil {
		h.stop()
		return nil, 0, err
	}
	h.prepare(tok)
	n := cfg.N
	if n <= 0 {
		h.cfg.NoOversample = true
		if n, err = h.tally(all); err != nil {
			h.stop()
			return nil, 0, err
		}
	}
	return h, n, nil
}

// takes says whether the endpoint takes what the rows hold.
func (h *hub) takes() error {
	switch {
	case h.rule.media && h.rule.name == "ASR" && !h.cfg.Chat && !h.cfg.Speech:
		return errors.New("recordings go to --backend openai-audio, or into the messages of openai-chat")
	case h.rule.media && !h.cfg.Chat && !h.cfg.Speech:
		return errors.New("images and videos go into chat messages: use --backend openai-chat")
	case h.cfg.Speech && h.rule.media && !h.rule.sound:
		return fmt.Errorf("openai-audio takes recordings, and %s has images or videos: use --backend openai-chat", h.rule.name)
	case h.cfg.Speech && !h.rule.media:
		return errors.New("openai-audio takes recordings, and no column has any (looked for: audio)")
	}
	return nil
}

// tally counts the rows by reading them once.
func (h *hub) tally(all iter.Seq2[rows.Row, error]) (n int, err error) {
	for row, err := range all {
		if err != nil {
			return 0, err
		}
		if _, keep, _ := h.rule.read(row, &h.cfg.HF); keep { // a bad row is named when it is sent
			n++
		}
	}
	return max(n, 1), nil
}

// maxRows stands for as many as there are.
const maxRows = int(^uint(0) >> 1)

// prepare fixes what follows from the rule.
func (h *hub) prepare(tok Tokenizer) {
	h.out = h.cfg.Output
	if h.out == 0 {
		h.out = h.rule.output
	} else {
		h.rule.check = nil // a length that was asked for ends the filter
	}
	if tok == nil {
		h.add(noTokenizer)
	}
	if h.rule.template && h.tmpl == nil && !h.cfg.SkipTemplate {
		h.add("no chat template: prompts are sent as they are in the file")
	}
	if h.cfg.Chat && h.dressed() {
		h.add("prompts carry the chat template already, as vLLM sends them, and the chat endpoint applies it again: --skip-chat-template avoids that")
	}
}

func (h *hub) dressed() bool { return h.rule.template && h.tmpl != nil && !h.cfg.SkipTemplate }

// findRule looks for the dataset's id in its name or path.
func findRule(cfg *Config) (hubRule, bool) {
	place := strings.ReplaceAll(cfg.Path, "--", "/") // as the hub's cache names folders
	for _, r := range slices.Concat(hubRules, hubMediaRules) {
		for _, id := range r.ids {
			if cfg.HF.Name == id || cfg.HF.Name == "" && strings.Contains("/"+place+"/", "/"+id+"/") {
				return r, true
			}
		}
	}
	return hubRule{}, false
}

// guess finds the columns by the first row.
func (h *hub) guess() error {
	row, err, ok := h.rows()
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no rows", h.cfg.Path)
	}
	if err != nil {
		return err
	}
	rule, note, err := detect(row)
	rule, more := withMedia(rule, row, &h.cfg)
	if err != nil && !(h.cfg.Speech && rule.media) { // a recording needs no prompt
		return fmt.Errorf("%s: %w", h.cfg.Path, err)
	}
	if err != nil {
		rule.name, rule.output, note = "recordings", 1024, ""
	}
	h.rule = rule
	for _, n := range []string{note, more} {
		if n != "" {
			h.add(n)
		}
	}
	h.buffer = append(h.buffer, row)
	return nil
}

// categories are the leaderboard's files of the wanted categories.
func categories(files, want []string) []string {
	if len(want) == 0 {
		want = []string{"simple", "live_simple", "multiple"}
	}
	var out []string
	for _, w := range want {
		for _, f := range files {
			name := strings.TrimSuffix(path.Base(f), path.Ext(f))
			if rest, ok := strings.CutSuffix(name, "_"+w); ok && strings.HasPrefix(rest, "BFCL_v") && !strings.Contains(rest[6:], "_") {
				out = append(out, f)
			}
		}
	}
	if len(out) == 0 {
		return files
	}
	return out
}

// pull gives the next row in the order of the run.
func (h *hub) pull() (rows.Row, bool, error) {
	limit := hubBuffer
	if h.cfg.HF.Whole {
		limit = maxRows
	}
	if h.cfg.NoShuffle {
		limit = 1
	}
	for !h.filled {
		row, err, ok := h.rows()
		switch {
		case err != nil:
			return nil, false, err
		case !ok:
			h.filled = true
			h.last()
		case len(h.buffer) < limit:
			h.buffer = append(h.buffer, row)
		default:
			i := h.place(len(h.buffer))
			out := h.buffer[i]
			h.buffer[i] = row
			return out, true, nil
		}
	}
	if len(h.buffer) == 0 {
		return nil, false, nil
	}
	out := h.buffer[0]
	h.buffer = h.buffer[1:]
	return out, true, nil
}

// place draws which row leaves the buffer.
func (h *hub) place(n int) int64 {
	if n == 1 {
		return 0
	}
	if len(h.picks) == 0 {
		h.picks = make([]int64, hubBuffer)
		h.draws.FillIntegers(h.picks, 0, int64(n))
	}
	i := h.picks[0]
	h.picks = h.picks[1:]
	return i
}

// last shuffles what is left when the files have ended.
func (h *hub) last() {
	switch {
	case h.cfg.NoShuffle:
	case h.cfg.HF.Whole:
		old := slices.Clone(h.buffer)
		for i, k := range h.draws.Permutation(len(old)) {
			h.buffer[i] = old[k]
		}
	default:
		h.draws.Shuffle(len(h.buffer), func(i, j int) { h.buffer[i], h.buffer[j] = h.buffer[j], h.buffer[i] })
	}
}

func (h *hub) next() (job, state, error) {
	for !h.dry {
		row, ok, err := h.pull()
		if err != nil {
			return job{}, done, err
		}
		if !ok {
			h.dry = true
			break
		}
		c, keep, err := h.rule.read(row, &h.cfg.HF)
		if err != nil {
			return job{}, done, fmt.Errorf("%s: a row does not look like one of %s: %w", h.cfg.Path, h.rule.name, err)
		}
		if keep {
			h.unsettled++
			return job{row: &c}, issue, nil
		}
	}
	switch {
	case h.again == nil && h.unsettled > 0:
		return job{}, wait, nil
	case len(h.taken) == 0:
		return job{}, done, fmt.Errorf("%s: no usable row: there is none, or none fits the given lengths", h.cfg.Path)
	case h.cfg.NoOversample && !h.cfg.Endless:
		return job{}, done, nil
	}
	if h.again == nil {
		h.again = rng.NewPython(h.cfg.Seed)
	}
	h.repeats++
	return job{row: h.taken[h.again.Choice(len(h.taken))], again: true}, issue, nil
}

func (h *hub) build(s *scratch, j job) (call.Request, bool, error) {
	c := j.row
	out := h.out
	if c.out > 0 && h.cfg.Output == 0 {
		out = c.out
	}
	if out == FromData {
		out = s.count(c.answer).N
	}
	text := salted(h.cfg.Salt, c.prompt)
	var err error
	if h.dressed() && c.messages == nil {
		if text, err = h.tmpl(text); err != nil {
			return call.Request{}, false, fmt.Errorf("apply the chat template: %w", err)
		}
	}
	in := s.count(text)
	if h.rule.check != nil && !h.rule.check(in.N, out) {
		return call.Request{}, false, nil
	}
	req := call.Request{In: in, MaxOut: max(1, out), Extra: c.extra}
	if len(c.media) > 0 {
		return req, true, h.attach(&req, c, text)
	}
	if c.messages != nil {
		req.Prompt.Messages = c.messages
		return req, true, nil
	}
	req.Prompt = s.prompt(text, h.cfg.IDs)
	return req, true, nil
}

func (h *hub) settle(j job, req *call.Request, keep bool) error {
	if j.again {
		markRepeat(j, req)
		return nil
	}
	h.unsettled--
	if keep {
		h.taken = append(h.taken, j.row)
	}
	return nil
}

func (h *hub) close() error {
	h.stop()
	return nil
}

func (h *hub) notes() []string {
	all := h.remarks.notes()
	if h.repeats > 0 {
		all = append(all, fmt.Sprintf("the dataset has %d usable rows: further requests repeat them, which a prefix cache makes faster", len(h.taken)))
	}
	return all
}
