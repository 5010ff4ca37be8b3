package harvest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spate/internal/nearest"
	"spate/internal/result"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
)

// Find finds the results in files, in folders and below them; "-" is stdin. Every path that does not
// exist is named before any is read. What is damaged is a problem, not an error.
func Find(paths []string, stdin io.Reader) (*result.Set, error) {
	in := &reader{stdin: stdin}
	if err := in.check(paths); err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := in.path(path); err != nil {
			return nil, err
		}
	}
	in.set.Entries = Combine(in.set.Entries)
	for i := range in.set.Entries {
		e := &in.set.Entries[i]
		if e.ID == "" {
			*e = result.Named(*e)
		}
		discreet(e)
	}
	for i := range in.set.Problems {
		in.set.Problems[i].Text = secret.Text(in.set.Problems[i].Text)
	}
	return &in.set, nil
}

// discreet hides what a log or a page holds of secrets: commands with keys, errors that quote them.
func discreet(e *result.Entry) {
	if e.Run != nil && e.Key == "" {
		return // its folder was written without any
	}
	e.Name, e.Error = secret.Text(e.Name), secret.Text(e.Error)
	for k, v := range e.Labels {
		e.Labels[k], _ = secret.Any(k, v).(string)
	}
	for i := range e.Context {
		e.Context[i].Value = secret.Any(e.Context[i].Name, e.Context[i].Value)
	}
	for i := range e.Problems {
		e.Problems[i].Text = secret.Text(e.Problems[i].Text)
	}
	if e.Launch != nil {
		launch := secret.Text(*e.Launch)
		e.Launch = &launch
	}
}

// reader goes through files and folders.
type reader struct {
	stdin io.Reader
	set   result.Set
}

// check names every path that cannot be read before any is.
func (in *reader) check(paths []string) error {
	var all []error
	for _, path := range paths {
		if path == "-" {
			continue
		}
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = append(all, infile.Missing("%s does not exist%s", path, NearestFile(path)))
		case err != nil:
			all = append(all, fmt.Errorf("open: %w", err))
		}
	}
	return errors.Join(all...)
}

// NearestFile is a hint at a file of nearly that name; empty when there is none.
func NearestFile(path string) string {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return ": there is no folder " + dir
		}
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	best := nearest.Word(filepath.Base(path), names)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", filepath.Join(dir, best))
}

func (in *reader) path(path string) error {
	if path == "-" {
		return in.read("standard input", in.stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if info.IsDir() {
		return in.folder(path)
	}
	if dir := filepath.Dir(path); isRunFile(filepath.Base(path)) && isRunFolder(dir) {
		return in.run(dir)
	}
	return in.file(path)
}

// folder takes a folder of spate's own as one run and goes through any other.
func (in *reader) folder(dir string) error {
	if isRunFolder(dir) {
		return in.run(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			err = in.folder(path)
		case e.Type().IsRegular() && !isBinary(path):
			err = in.file(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isRunFile(name string) bool { return name == result.ResultFile || name == result.RunFile }

// isRunFolder tells spate's run folders from folders that hold a file of such a name.
func isRunFolder(dir string) bool {
	data, err := infile.ReadFile(filepath.Join(dir, result.RunFile), infile.MaxSettings)
	if err != nil {
		if data, err = infile.ReadFile(filepath.Join(dir, result.ResultFile), infile.MaxSettings); err != nil {
			return false
		}
	}
	var head struct {
		Schema int             `json:"schema"`
		Tool   string          `json:"tool"`
		Plan   json.RawMessage `json:"plan"`
	}
	if json.Unmarshal(data, &head) == nil && head.Schema > 0 && head.Plan != nil {
		return true
	}
	info, err := os.Stat(filepath.Join(dir, result.RecordsFile)) // beside a damaged plan, the records still say most
	return err == nil && info.Mode().IsRegular()
}

func (in *reader) run(dir string) error {
	run, err := result.Open(dir)
	if err != nil {
		return err
	}
	in.set.Entries = append(in.set.Entries, result.FromRun(run))
	return nil
}

// isBinary looks for zero bytes, which text has only in UTF-16.
func isBinary(path string) bool {
	f, err := infile.Open(path, infile.MaxImport)
	if err != nil {
		return false // reading it will say so
	}
	defer func() { _ = f.Close() }() // only read from
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	for _, mark := range [][]byte{{0xff, 0xfe}, {0xfe, 0xff}, {0x1f, 0x8b}} {
		if bytes.HasPrefix(head, mark) {
			return false
		}
	}
	return bytes.IndexByte(head, 0) >= 0
}

func (in *reader) file(path string) error {
	f, err := infile.Open(path, infile.MaxImport)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	return in.read(path, f)
}

// read takes the results of one stream. One that breaks off, as a cut gzip file does, keeps what came
// before.
func (in *reader) read(name string, r io.Reader) error {
	buf := bufio.NewReader(r)
	if head, _ := buf.Peek(64); result.IsExport(head) {
		entries, problems := result.ReadExport(name, buf)
		in.set.Entries = append(in.set.Entries, entries...)
		in.set.Problems = append(in.set.Problems, problems...)
		return nil
	}
	h, err := Read(name, buf)
	if h != nil {
		in.set.Entries = append(in.set.Entries, h.Entries...)
		in.set.Problems = append(in.set.Problems, h.Problems...)
	}
	if err != nil {
		in.set.Problems = append(in.set.Problems, result.Problem{File: name, Line: 1, Kind: result.Damaged, Text: err.Error()})
	}
	return nil
}
