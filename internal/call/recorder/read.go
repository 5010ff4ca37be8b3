package recorder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/safe/infile"
)

// maxLine bounds one line of a log; a longer one is damage, not a record.
const maxLine = 256 << 20

// maxNamed bounds how many damaged lines are described one by one.
const maxNamed = 20

// Damage says what of a log could not be read.
type Damage struct {
	Bad   int       `json:"bad"`             // lines that are not records, the torn one not counted
	Torn  bool      `json:"torn,omitempty"`  // the last line stops in the middle, as after a kill during a write
	Lines []BadLine `json:"lines,omitempty"` // the first of them, in order; the torn line is among them
}

// BadLine is one line that is not a record.
type BadLine struct {
	Number int    `json:"number"` // from 1
	Why    string `json:"why"`
}

// Any reports whether anything was damaged.
func (d Damage) Any() bool {
	return d.Bad > 0 || d.Torn
}

// String describes the damage in one line for people.
func (d Damage) String() string {
	if !d.Any() {
		return "no damage"
	}
	var parts []string
	if d.Bad > 0 {
		parts = append(parts, fmt.Sprintf("%d unreadable line(s)", d.Bad))
	}
	if d.Torn {
		parts = append(parts, "the last line is cut off")
	}
	s := strings.Join(parts, ", ")
	if len(d.Lines) > 0 {
		s += fmt.Sprintf(" (first: line %d: %s)", d.Lines[0].Number, d.Lines[0].Why)
	}
	return s
}

func (d *Damage) note(line int, why error) {
	if len(d.Lines) < maxNamed {
		d.Lines = append(d.Lines, BadLine{Number: line, Why: why.Error()})
	}
}

// Read reads a whole log, in the order requests ended. Damaged lines are skipped and described; an
// error means the file itself could not be read.
func Read(path string) ([]call.Record, Damage, error) {
	f, err := infile.Open(path, infile.Unbounded)
	if err != nil {
		return nil, Damage{}, fmt.Errorf("open record log: %w", err)
	}
	var recs []call.Record
	damage, err := Scan(f, func(r *call.Record) error {
		recs = append(recs, *r)
		return nil
	})
	if cerr := f.Close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return recs, damage, fmt.Errorf("read record log %s: %w", path, err)
	}
	return recs, damage, nil
}

// Each goes through the records of a log, one at a time; what cannot be read is left out.
func Each(path string) iter.Seq[*call.Record] {
	return func(yield func(*call.Record) bool) {
		f, err := infile.Open(path, infile.Unbounded)
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }() // only read from
		_, _ = Scan(f, func(r *call.Record) error {
			if !yield(r) {
				return io.EOF
			}
			return nil
		})
	}
}

// Load takes all records of a log, as Read does.
func (s *Spill) Load(path string) (Damage, error) {
	f, err := infile.Open(path, infile.Unbounded)
	if err != nil {
		return Damage{}, fmt.Errorf("open record log: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	damage, err := Scan(f, s.Record)
	if err != nil {
		return damage, fmt.Errorf("read record log %s: %w", path, err)
	}
	return damage, nil
}

// Scan reads records one at a time and gives each to visit, holding one line in memory at a time.
// It stops at the first error of visit.
func Scan(from io.Reader, visit func(*call.Record) error) (Damage, error) {
	var damage Damage
	in := bufio.NewReaderSize(from, 1<<16)
	var line []byte
	for number := 1; ; number++ {
		var tooLong bool
		var err error
		line, tooLong, err = readLine(in, line[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return damage, err
		}
		last := err != nil
		if last && len(line) == 0 && !tooLong {
			return damage, nil
		}
		r, derr := decodeLine(line, tooLong)
		switch {
		case derr == nil:
			if err := visit(&r); err != nil {
				return damage, err
			}
		case last:
			damage.Torn = true
			damage.note(number, derr)
		default:
			damage.Bad++
			damage.note(number, derr)
		}
		if last {
			return damage, nil
		}
	}
}

// readLine appends the next line, without its end, to dst. The error is io.EOF when the file ended
// before the line did.
func readLine(in *bufio.Reader, dst []byte) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(dst)+len(part) > maxLine {
			dst, tooLong = dst[:0], true
		}
		if !tooLong {
			dst = append(dst, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSuffix(dst, []byte{'\n'}), tooLong, err
	}
}

func decodeLine(line []byte, tooLong bool) (call.Record, error) {
	if tooLong {
		return call.Record{}, fmt.Errorf("longer than %d bytes", maxLine)
	}
	return Decode(line)
}

// column is a list of integers. Most of a line is columns; reading them here rather than value by
// value in encoding/json makes a log a third faster to read.
type column []int64

func (c *column) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) < 2 || b[0] != '[' {
		return errors.New("a column is not a list")
	}
	b = bytes.TrimSpace(b[1 : len(b)-1]) // the text is valid JSON: the brackets match
	*c = make(column, 0, 1+bytes.Count(b, []byte{','}))
	for more := len(b) > 0; more; {
		var item []byte
		item, b, more = bytes.Cut(b, []byte{','})
		n, err := strconv.ParseInt(string(bytes.TrimSpace(item)), 10, 64)
		if err != nil {
			return fmt.Errorf("a column holds %q", item)
		}
		*c = append(*c, n)
	}
	return nil
}

// wire is the line as encoding/json reads it: appendRecord's table the other way round.
type wire struct {
	ID      *int              `json:"id"`
	Name    string            `json:"name"`
	Attempt int               `json:"attempt"`
	Retried bool              `json:"retried"`
	Phase   call.Phase        `json:"phase"`
	Session string            `json:"session"`
	Turn    int               `json:"turn"`
	Model   string            `json:"model"`
	Target  int               `json:"target"`
	Worker  string            `json:"worker"`
	Labels  map[string]string `json:"labels"`

	Due        *time.Duration `json:"due_ns"`
	Dispatched *time.Duration `json:"dispatched_ns"`
	Started    *time.Duration `json:"started_ns"`
	Sent       *time.Duration `json:"sent_ns"`
	FirstByte  *time.Duration `json:"first_byte_ns"`
	Headers    *time.Duration `json:"headers_ns"`
	FirstToken *time.Duration `json:"first_token_ns"`
	FirstText  *time.Duration `json:"first_text_ns"`
	LastToken  *time.Duration `json:"last_token_ns"`
	LastEvent  *time.Duration `json:"last_event_ns"`
	End        *time.Duration `json:"end_ns"`

	Dial      time.Duration `json:"dial_ns"`
	Handshake time.Duration `json:"handshake_ns"`
	InBand    bool          `json:"in_band"`
	Reused    bool          `json:"reused"`

	ChunkAt     column `json:"chunk_ns"`
	ChunkTokens column `json:"chunk_tokens"`
	ChunkKind   column `json:"chunk_kind"`

	Asked     call.Count        `json:"asked"`
	AskedOut  int               `json:"asked_out"`
	Inputs    int               `json:"inputs"`
	Audio     time.Duration     `json:"audio_ns"`
	In        call.Count        `json:"in"`
	Out       call.Count        `json:"out"`
	Cached    call.Count        `json:"cached"`
	Reason    call.Count        `json:"reason"`
	ToolOut   call.Count        `json:"tool_out"`
	Claimed   int               `json:"claimed"`
	BytesIn   int64             `json:"bytes_in"`
	Finish    string            `json:"finish"`
	Text      string            `json:"text"`
	Thoughts  string            `json:"thoughts"`
	ToolText  string            `json:"tool_text"`
	Server    *call.ServerTimes `json:"server"`
	Status    int               `json:"status"`
	Outcome   call.Outcome      `json:"outcome"`
	Fault     call.Fault        `json:"fault"`
	Err       string            `json:"error"`
	RetryWait time.Duration     `json:"retry_wait_ns"`
}

// Decode reads one line. Fields it does not know are left alone, so that newer logs stay readable.
func Decode(line []byte) (call.Record, error) {
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return call.Record{}, err
	}
	if w.ID == nil {
		return call.Record{}, errors.New("no id")
	}
	switch w.Outcome {
	case call.OK, call.Failed, call.Dropped, call.Canceled:
	default:
		return call.Record{}, fmt.Errorf("unknown outcome %q", w.Outcome)
	}
	chunks, err := w.chunks()
	if err != nil {
		return call.Record{}, err
	}
	if len(w.Labels) == 0 {
		w.Labels = nil
	}
	r := w.record(chunks)
	if err := r.Check(); err != nil {
		return call.Record{}, err
	}
	r.Doubt() // a log of an earlier release may hold counts that nobody doubted
	return r, nil
}

func (w *wire) chunks() ([]call.Chunk, error) {
	n := len(w.ChunkAt)
	if t := len(w.ChunkTokens); t != 0 && t != n {
		return nil, fmt.Errorf("%d chunk_tokens for %d chunks", t, n)
	}
	if k := len(w.ChunkKind); k != 0 && k != n {
		return nil, fmt.Errorf("%d chunk_kind for %d chunks", k, n)
	}
	if n == 0 {
		return nil, nil
	}
	chunks := make([]call.Chunk, n)
	for i, at := range w.ChunkAt {
		chunks[i] = call.Chunk{At: time.Duration(at), Kind: call.Visible}
	}
	for i, t := range w.ChunkTokens {
		if t < math.MinInt32 || t > math.MaxInt32 {
			return nil, fmt.Errorf("chunk_tokens %d", t)
		}
		chunks[i].Tokens = int32(t)
	}
	for i, k := range w.ChunkKind {
		if k < 0 || k > math.MaxUint8 {
			return nil, fmt.Errorf("chunk_kind %d", k)
		}
		chunks[i].Kind = call.Kind(k)
	}
	return chunks, nil
}

func (w *wire) record(chunks []call.Chunk) call.Record {
	at := func(stamp *time.Duration) time.Duration {
		if stamp == nil {
			return call.Unset
		}
		return *stamp
	}
	return call.Record{
		ID: *w.ID, Name: w.Name, Attempt: w.Attempt, Retried: w.Retried, Phase: w.Phase,
		Session: w.Session, Turn: w.Turn, Model: w.Model, Target: w.Target, Worker: w.Worker, Labels: w.Labels,
		Due: at(w.Due), Dispatched: at(w.Dispatched), Started: at(w.Started), Sent: at(w.Sent),
		FirstByte: at(w.FirstByte), Headers: at(w.Headers), FirstToken: at(w.FirstToken),
		FirstText: at(w.FirstText), LastToken: at(w.LastToken), LastEvent: at(w.LastEvent), End: at(w.End),
		Dial: w.Dial, Handshake: w.Handshake, InBand: w.InBand, Reused: w.Reused,
		Chunks: chunks,
		Asked:  w.Asked, AskedOut: w.AskedOut, Inputs: w.Inputs, Audio: w.Audio, In: w.In, Out: w.Out, Cached: w.Cached,
		Reason: w.Reason, ToolOut: w.ToolOut, Claimed: w.Claimed, BytesIn: w.BytesIn, Finish: w.Finish,
		Text: w.Text, Thoughts: w.Thoughts, ToolText: w.ToolText, Server: w.Server,
		Status: w.Status, Outcome: w.Outcome, Fault: w.Fault, Err: w.Err, RetryWait: w.RetryWait,
	}
}
