package result

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/host/enginelog"
	"spate/internal/safe/escape"
)

// The marks by which files are known that spate exported.
const (
	jsonMark = `{"spate_export":`
	csvMark  = "spate_id,"
)

// WriteJSON writes entries as an array, one on each line. ReadExport reads it.
func WriteJSON(w io.Writer, entries []Entry) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i := range entries {
		data, err := Encode(&entries[i])
		if err != nil {
			return err
		}
		mark := ",\n"
		if i == 0 {
			mark = "\n"
		}
		if _, err := io.WriteString(w, mark+string(data)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

// WriteJSONL writes entries one on each line. ReadExport reads it.
func WriteJSONL(w io.Writer, entries []Entry) error {
	for i := range entries {
		data, err := Encode(&entries[i])
		if err != nil {
			return err
		}
		if _, err := w.Write(append(data, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// The columns every table has; those of labels, settings and figures follow as the entries have them.
var csvFixed = []string{"spate_id", "key", "name", "format", "started", "source", "line", "error"}

const (
	labelColumn   = "label."
	contextColumn = "context."
	extraColumn   = "extra."
	emptyText     = `""` // a cell that holds an empty text, not nothing
)

// WriteCSV writes a table with a row for each entry: labels, the settings that are single values, and all
// figures as printed. ReadExport reads it; what a table has no room for is then missing.
func WriteCSV(w io.Writer, entries []Entry) error {
	var labels, settings, figures, extras []string
	rows := make([]map[string]string, len(entries))
	for i := range entries {
		e := &entries[i]
		row := map[string]string{}
		set := func(columns *[]string, name, text string) {
			if !slices.Contains(*columns, name) {
				*columns = append(*columns, name)
			}
			if text == "" {
				text = emptyText
			}
			row[name] = text
		}
		for _, name := range slices.Sorted(maps.Keys(e.Labels)) {
			set(&labels, labelColumn+name, e.Labels[name])
		}
		for _, f := range e.Context {
			if text, ok := single(f.Value); ok {
				set(&settings, contextColumn+f.Name, text)
			}
		}
		for _, f := range e.Metrics {
			set(&figures, f.Name, f.String())
		}
		for _, f := range e.Extra {
			set(&extras, extraColumn+f.Name, f.String())
		}
		fixedCells(e, row)
		rows[i] = row
	}
	slices.Sort(labels)
	out := escape.NewCSV(w)
	columns := slices.Concat(csvFixed, labels, settings, figures, extras)
	if err := out.Write(columns); err != nil {
		return err
	}
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = row[c]
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	return out.Flush()
}

func fixedCells(e *Entry, row map[string]string) {
	row["spate_id"], row["key"], row["name"], row["format"] = e.ID, Identity(e), e.Name, e.Format
	row["source"], row["line"], row["error"] = e.Source.File, strconv.Itoa(e.Source.Line), e.Error
	if at := e.Started(); !at.IsZero() {
		row["started"] = at.UTC().Format(time.RFC3339Nano)
	}
}

// single is a setting that fits into a cell.
func single(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number, bool, int, int64, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// IsExport reports whether a text that begins so is one spate exported.
func IsExport(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	if bytes.HasPrefix(head, []byte(csvMark)) {
		return true
	}
	head = bytes.TrimLeft(head, " \t\r\n[")
	return bytes.HasPrefix(head, []byte(jsonMark))
}

// ReadExport reads entries and says what is wrong; those before the damage are kept.
func ReadExport(name string, r *bufio.Reader) ([]Entry, []Problem) {
	head, _ := r.Peek(64)
	var entries []Entry
	var err error
	if bytes.HasPrefix(bytes.TrimPrefix(head, []byte("\ufeff")), []byte(csvMark)) {
		entries, err = readCSV(r)
	} else {
		entries, err = readJSON(r)
	}
	for i := range entries {
		if run := entries[i].Run; run != nil {
			if _, gone := os.Stat(run.Dir); gone != nil {
				run.Dir = "" // it lies on another machine, or nowhere
			}
		}
	}
	if err == nil {
		return entries, nil
	}
	text := fmt.Sprintf("%v; %d results before it are kept", err, len(entries))
	return entries, []Problem{{File: name, Line: len(entries) + 1, Kind: Damaged, Text: text}}
}

// readJSON reads an array of entries, or entries one after the other.
func readJSON(r *bufio.Reader) ([]Entry, error) {
	dec := json.NewDecoder(r)
	inArray := false
	for b, err := r.Peek(1); err == nil; b, err = r.Peek(1) {
		if !strings.ContainsAny(string(b), " \t\r\n[") && b[0] < 0x80 {
			break
		}
		inArray = inArray || b[0] == '['
		_, _ = r.Discard(1) // it was just seen
	}
	if inArray {
		dec = json.NewDecoder(io.MultiReader(strings.NewReader("["), r))
		if _, err := dec.Token(); err != nil {
			return nil, err
		}
	}
	var out []Entry
	for dec.More() {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == nil {
			var e Entry
			if e, err = DecodeEntry(raw); err == nil {
				out = append(out, e)
				continue
			}
		}
		return out, err
	}
	if inArray {
		if _, err := dec.Token(); err != nil {
			return out, fmt.Errorf("the list has no end: %w", err)
		}
	}
	return out, nil
}

func readCSV(r io.Reader) ([]Entry, error) {
	in := csv.NewReader(r)
	header, err := in.Read()
	if err != nil {
		return nil, err
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	var out []Entry
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, csvEntry(header, cells))
	}
}

func csvEntry(header, cells []string) Entry {
	e := Entry{EngineLog: []enginelog.Sample{}}
	started := ""
	for i, column := range header {
		column = escape.Plain(column)
		text := escape.Plain(cells[i])
		if text == "" {
			continue
		}
		if text == emptyText {
			text = ""
		}
		if slices.Contains(csvFixed, column) {
			if column == "started" {
				started = text
			}
			fixed(&e, column, text)
			continue
		}
		if name, ok := strings.CutPrefix(column, labelColumn); ok {
			if e.Labels == nil {
				e.Labels = map[string]string{}
			}
			e.Labels[name] = text
		} else if name, ok := strings.CutPrefix(column, contextColumn); ok {
			e.Context = append(e.Context, Fact{Name: name, Value: Plain(text), From: "file: " + column})
		} else if name, ok := strings.CutPrefix(column, extraColumn); ok {
			e.Extra = append(e.Extra, NewPrinted(name, text, ""))
		} else {
			e.Metrics = append(e.Metrics, NewPrinted(column, text, ""))
		}
	}
	if _, ok := e.Context.Get("date"); !ok && started != "" {
		e.Context = append(e.Context, Fact{Name: "date", Value: started, From: "file: started"})
	}
	return e
}

func fixed(e *Entry, column, text string) {
	switch column {
	case "spate_id":
		e.ID = text
	case "key":
		if len(text) == 64 { // anything else would be no identity
			e.Key = text
		}
	case "name":
		e.Name = text
	case "format":
		e.Format = text
	case "source":
		e.Source.File = text
	case "line":
		e.Source.Line, _ = strconv.Atoi(text) // 0 where somebody has changed it to a word
	case "error":
		e.Error = text
	}
}
