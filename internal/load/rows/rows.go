// Package rows reads dataset files row by row, whatever form they have: JSON, JSON lines, CSV, Parquet, Arrow (rows.go). What
// is too large to be held is walked over, and read again where something was noted (scan.go). Package workload makes
// requests of rows.
package rows

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"spate/internal/load/arrow"
)

// Row is one of a dataset: columns by name, values as JSON has them.
type Row map[string]any

// File is a dataset file: read once from the front, then at the places that were sampled.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// Endings are the files rows are read from.
var Endings = []string{".parquet", ".arrow", ".feather", ".jsonl", ".json", ".csv"}

// Read reads the rows of a file, by its ending.
func Read(open func(string) (File, error), name string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		file, err := open(name)
		if err != nil {
			yield(nil, fmt.Errorf("open dataset: %w", err))
			return
		}
		defer func() { _ = file.Close() }() // it was only read
		read := jsonRows
		switch path.Ext(name) {
		case ".csv":
			read = csvRows
		case ".parquet":
			read = parquetRows
		case ".arrow", ".feather":
			read = arrowRows
		}
		stopped := false
		err = read(file, func(row Row) bool {
			stopped = !yield(row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, fmt.Errorf("%s: %w", name, err))
		}
	}
}

// Concat reads files one after the other.
func Concat(open func(string) (File, error), files []string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, f := range files {
			for row, err := range Read(open, f) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// Interleave takes a row of each file in turn.
func Interleave(open func(string) (File, error), files []string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		type source struct {
			next func() (Row, error, bool)
			stop func()
		}
		var all []source
		defer func() {
			for _, s := range all {
				s.stop()
			}
		}()
		for _, f := range files {
			next, stop := iter.Pull2(Read(open, f))
			all = append(all, source{next, stop})
		}
		left := slices.Clone(all)
		for len(left) > 0 {
			left = slices.DeleteFunc(left, func(s source) bool {
				row, err, ok := s.next()
				if !ok || left == nil {
					return true
				}
				if !yield(row, err) || err != nil {
					left = nil
				}
				return left == nil
			})
		}
	}
}

// jsonRows reads an array of objects, or objects one after the other.
func jsonRows(file File, yield func(Row) bool) error {
	in := bufio.NewReaderSize(file, 256<<10)
	dec := json.NewDecoder(in)
	if c, err := firstByte(in); err == nil && c == '[' {
		if _, err := dec.Token(); err != nil {
			return fmt.Errorf("read the array: %w", err)
		}
		for n := 1; dec.More(); n++ {
			var row Row
			if err := dec.Decode(&row); err != nil {
				return fmt.Errorf("row %d: %w", n, err)
			}
			if !yield(row) {
				return nil
			}
		}
		return nil
	}
	for n := 1; ; n++ {
		var row Row
		if err := dec.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		if !yield(row) {
			return nil
		}
	}
}

// firstByte looks at the first byte that is no space.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		if !strings.ContainsRune(" \t\r\n\ufeff", rune(c)) {
			return c, in.UnreadByte()
		}
	}
}

func csvRows(file File, yield func(Row) bool) error {
	in := csv.NewReader(bufio.NewReaderSize(file, 256<<10))
	in.FieldsPerRecord = -1
	head, err := in.Read()
	if err != nil {
		return fmt.Errorf("read the first line: %w", err)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the table: %w", err)
		}
		row := Row{}
		for i, name := range head {
			if i < len(cells) {
				row[name] = cells[i]
			}
		}
		if !yield(row) {
			return nil
		}
	}
}

// parquetRows reads a Parquet file. The package that decodes it panics on some damaged files.
func parquetRows(file File, yield func(Row) bool) (err error) {
	inside := true // the panics of those who take the rows are theirs
	defer func() {
		if inside {
			if p := recover(); p != nil {
				err = fmt.Errorf("damaged Parquet file: %v", p)
			}
		}
	}()
	s, ok := file.(io.Seeker)
	if !ok {
		return errors.New("a Parquet file needs to be a real file")
	}
	size, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	if err := checkFooter(file, size); err != nil {
		return err
	}
	table, err := parquet.OpenFile(file, size)
	if err != nil {
		return fmt.Errorf("read Parquet: %w", err)
	}
	rows := parquet.NewGenericReader[any](table)
	defer func() { _ = rows.Close() }() // it was only read
	batch := make([]any, 64)
	for {
		clear(batch)
		n, err := rows.Read(batch)
		for _, v := range batch[:n] {
			m, _ := plain(v).(map[string]any)
			inside = false
			more := yield(m)
			inside = true
			if !more {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read Parquet: %w", err)
		}
	}
}

// arrowRows reads Arrow's streams and files.
func arrowRows(file File, yield func(Row) bool) error {
	s, ok := file.(io.Seeker)
	if !ok {
		return errors.New("an Arrow file needs to be a real file")
	}
	size, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	return arrow.Read(file, size, func(row map[string]any) bool { return yield(row) })
}

// checkFooter refuses a file that claims a longer footer than it is: the decoder would make room for all of it.
func checkFooter(file io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return errors.New("too short for a Parquet file")
	}
	if _, err := file.ReadAt(tail[:], size-8); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read Parquet: %w", err)
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:])); string(tail[4:]) != "PAR1" || n > size-12 {
		return errors.New("damaged Parquet file: its footer is not there")
	}
	return nil
}

// plain turns what Parquet gives into what JSON gives: lists without their wrapping, text as strings.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case map[string]any:
		if inner, ok := v["list"].([]any); ok && len(v) == 1 {
			return plainList(inner)
		}
		if inner, ok := v["list"]; ok && len(v) == 1 && inner == nil {
			return []any{}
		}
		for k, x := range v {
			v[k] = plain(x)
		}
		return v
	case []any:
		return plainList(v)
	}
	return v
}

func plainList(list []any) []any {
	out := make([]any, len(list))
	for i, x := range list {
		if m, ok := x.(map[string]any); ok && len(m) == 1 {
			if e, ok := m["element"]; ok {
				x = e
			} else if e, ok := m["item"]; ok {
				x = e
			}
		}
		out[i] = plain(x)
	}
	return out
}

// Files are the files of a dataset: the path itself, or what a folder holds of the kinds that are
// read, in order. Those of the wanted subset and split are taken where names tell.
func Files(open func(string) (File, error), name, subset, split string) ([]string, error) {
	all, err := walk(open, name, 0)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no %s file", name, strings.Join(Endings, ", "))
	}
	if len(all) == 1 && all[0] == name {
		return all, nil
	}
	for _, word := range []string{subset, split} {
		if word == "" {
			continue
		}
		var some []string
		for _, f := range all {
			if named(strings.TrimPrefix(f, name), word) {
				some = append(some, f)
			}
		}
		if len(some) > 0 {
			all = some
		} else if word == subset {
			return nil, fmt.Errorf("%s holds no file of subset %q: %s", name, word, strings.Join(all[:min(len(all), 5)], ", "))
		}
	}
	return all, nil
}

// besideRows reports files the Hugging Face library leaves beside its data: what is in them, and what it computed.
func besideRows(name string) bool {
	return strings.HasPrefix(name, "dataset_info") || name == "dataset_dict.json" || name == "state.json" || strings.HasPrefix(name, "cache-")
}

// named reports whether a part of a path is a word, or begins with it: train-00000-of-00002.parquet. In the
// library's cache the dataset's name comes first: gsm8k-train.arrow.
func named(p, word string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(part string) bool {
		rest, ok := strings.CutPrefix(part, word)
		if _, after, found := strings.Cut(part, "-"+word); !ok && found && path.Ext(part) == ".arrow" {
			rest, ok = after, true
		}
		return ok && (rest == "" || strings.ContainsAny(rest[:1], "-_."))
	})
}

// Below lists the files below a path, in order; a file is its own only one.
func Below(open func(string) (File, error), name string) ([]string, error) {
	return walk(open, name, 0)
}

// walk lists the files below a path, in order; a file is its own only one.
func walk(open func(string) (File, error), name string, depth int) ([]string, error) {
	file, err := open(name)
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	dir, ok := file.(fs.ReadDirFile)
	if !ok {
		return []string{name}, nil
	}
	if info, err := dir.Stat(); err != nil || !info.IsDir() {
		return []string{name}, nil //nolint:nilerr // reading it will say what is wrong
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var out []string
	for _, e := range entries {
		full := path.Join(name, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), ".") || besideRows(e.Name()):
		case slices.Contains(Endings, path.Ext(e.Name())):
			out = append(out, full)
		case e.IsDir() && depth < 6:
			more, err := walk(open, full, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}
