package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxTokens is more than any model reads; a longer length in a trace is a mistake in it.
const maxTokens = 1 << 28

// Read reads a trace of JSON lines; most rows at most, all of them for 0.
func Read(r io.Reader, f Format, most int) ([]Row, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(r, 256<<10)
	var rows []Row
	for number := 1; most <= 0 || len(rows) < most; number++ {
		raw, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read line %d: %w", number, err)
		}
		if line := bytes.TrimSpace(raw); len(line) > 0 {
			row, bad := parseRow(line, &f)
			if bad != nil {
				return nil, fmt.Errorf("line %d: %w", number, bad)
			}
			rows = append(rows, row)
		}
		if err != nil {
			break
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("the trace has no rows")
	}
	return rows, nil
}

func parseRow(line []byte, f *Format) (Row, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return Row{}, fmt.Errorf("not a JSON object: %w", err)
	}
	var row Row
	var err error
	if row.In, err = tokens(fields, f.Labels.In); err != nil {
		return Row{}, err
	}
	if row.Out, err = tokens(fields, f.Labels.Out); err != nil {
		return Row{}, err
	}
	if raw, ok := fields[f.Labels.Time]; ok && string(raw) != "null" {
		if row.At, err = stamp(raw, f); err != nil {
			return Row{}, err
		}
	}
	if raw, ok := fields[f.Labels.Blocks]; ok && string(raw) != "null" {
		if row.Blocks, err = blocks(raw, f.Labels.Blocks); err != nil {
			return Row{}, err
		}
	}
	return row, nil
}

func tokens(fields map[string]json.RawMessage, label string) (int, error) {
	raw, ok := fields[label]
	if !ok {
		return 0, fmt.Errorf("no %q (if the column has another name, a --timed-trace-label flag names it)", label)
	}
	v, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || !(v >= 0 && v <= maxTokens) {
		return 0, fmt.Errorf("%q is %.40s, not a number of tokens", label, raw)
	}
	return int(v), nil
}

func stamp(raw json.RawMessage, f *Format) (time.Duration, error) {
	v, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	ns := v * f.Unit * 1e9
	if err != nil || !(math.Abs(ns) < math.MaxInt64/4) {
		return 0, fmt.Errorf("%q is %.40s, not a time", f.Labels.Time, raw)
	}
	return time.Duration(math.RoundToEven(ns)), nil
}

// blocks reads ids: numbers as they are, texts by a hash of theirs.
func blocks(raw json.RawMessage, label string) ([]uint64, error) {
	var ids []json.RawMessage
	if err := json.Unmarshal(raw, &ids); err != nil {
		return nil, fmt.Errorf("%q is %.40s, not a list of ids", label, raw)
	}
	out := make([]uint64, len(ids))
	for i, id := range ids {
		text := string(id)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			out[i] = uint64(n)
			continue
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			out[i] = n
			continue
		}
		if len(text) == 0 || text[0] != '"' {
			return nil, fmt.Errorf("%q holds %.40s, which is neither a whole number nor text", label, text)
		}
		h := fnv.New64a()
		_, _ = h.Write(id) // never fails
		out[i] = h.Sum64()
	}
	return out, nil
}

// Write writes a trace as JSON lines.
func Write(w io.Writer, rows []Row, f Format) error {
	if err := f.Check(); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	name := func(s string) string {
		raw, _ := json.Marshal(s) // a string always has a JSON form
		return string(raw)
	}
	var line []byte
	for i := range rows {
		r := &rows[i]
		at := strconv.FormatFloat(r.At.Seconds()/f.Unit, 'f', -1, 64)
		if whole := math.Round(r.At.Seconds() / f.Unit); math.Abs(r.At.Seconds()/f.Unit-whole) < 1e-6 {
			at = strconv.FormatFloat(whole, 'f', -1, 64)
		}
		line = fmt.Appendf(line[:0], `{%s: %s, %s: %d, %s: %d`, name(f.Labels.Time), at, name(f.Labels.In), r.In, name(f.Labels.Out), r.Out)
		if r.Blocks != nil {
			line = fmt.Appendf(line, `, %s: [`, name(f.Labels.Blocks))
			for k, b := range r.Blocks {
				if k > 0 {
					line = append(line, ", "...)
				}
				line = strconv.AppendUint(line, b, 10)
			}
			line = append(line, ']')
		}
		if _, err := out.Write(append(line, "}\n"...)); err != nil {
			return fmt.Errorf("write trace: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

// Burst is a row of a BurstGPT file.
type Burst struct {
	Row
	Model string
}

// burstColumns are those that are read by name; vLLM takes lengths by their place, which is the third and fourth.
var burstColumns = []string{"Timestamp", "Model", "Request tokens", "Response tokens"}

// ReadBurst reads a BurstGPT CSV file.
func ReadBurst(r io.Reader) ([]Burst, error) {
	in := csv.NewReader(bufio.NewReaderSize(r, 256<<10))
	in.ReuseRecord = true
	in.FieldsPerRecord = -1
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read the first line: %w", err)
	}
	at := make([]int, len(burstColumns))
	for i, want := range burstColumns {
		at[i] = -1
		for k, have := range head {
			if strings.EqualFold(strings.TrimSpace(strings.TrimPrefix(have, "\ufeff")), want) {
				at[i] = k
			}
		}
		if at[i] < 0 && i > 0 {
			return nil, fmt.Errorf("no column %q: the first line names %s", want, strings.Join(head, ", "))
		}
	}
	var rows []Burst
	for number := 2; ; number++ {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the table: %w", err)
		}
		row, err := burstRow(fields, at)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		rows = append(rows, row)
	}
}

func burstRow(fields []string, at []int) (Burst, error) {
	cell := func(i int) string {
		if at[i] < 0 || at[i] >= len(fields) {
			return ""
		}
		return strings.TrimSpace(fields[at[i]])
	}
	row := Burst{Model: strings.Clone(cell(1))}
	for i, p := range []*int{&row.In, &row.Out} {
		v, err := strconv.ParseFloat(cell(2+i), 64)
		if err != nil || !(v >= 0 && v <= maxTokens) {
			return row, fmt.Errorf("%q is %.40q, not a number of tokens", burstColumns[2+i], cell(2+i))
		}
		*p = int(v)
	}
	if text := cell(0); text != "" {
		f := Format{Labels: Labels{Time: burstColumns[0]}, Unit: 1}
		var err error
		if row.At, err = stamp(json.RawMessage(text), &f); err != nil {
			return row, err
		}
	}
	return row, nil
}

// WriteBurst writes rows as a BurstGPT CSV file, as calls of a model.
func WriteBurst(w io.Writer, rows []Row, model string) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"}) // Error has it
	for _, r := range rows {
		_ = out.Write([]string{
			strconv.FormatFloat(r.At.Seconds(), 'f', -1, 64), model, strconv.Itoa(r.In), strconv.Itoa(r.Out),
			strconv.Itoa(r.In + r.Out), "Conversation log",
		})
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
