package archtest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spate/internal/cli"
	"spate/internal/dialect"
	"spate/internal/flags"
)

var (
	shellBlock = regexp.MustCompile("(?s)\n```(?:sh|console|bash)(\n.*?\n)```")
	mdLink     = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	makeWord   = regexp.MustCompile(`(?m)^make ([a-z-]+)|` + "`make ([a-z-]+)`")
)

// documents are the Markdown files people read.
func documents(t *testing.T) []string {
	t.Helper()
	docs := []string{"README.md", "CHANGELOG.md"}
	more, err := fs.Glob(os.DirFS(root), "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(docs, more...)
}

// TestCommandLinesInDocumentsWork: whatever a document tells people to type is read without complaint.
func TestCommandLinesInDocumentsWork(t *testing.T) {
	found := 0
	for _, doc := range documents(t) {
		for _, block := range shellBlock.FindAllStringSubmatch(read(t, doc), -1) {
			for _, line := range commandLines(block[1]) {
				words, err := shellWords(line)
				if err != nil {
					t.Errorf("%s: %s: %v", doc, line, err)
					continue
				}
				if args, ok := spateArgs(words); ok {
					found++
					checkCommand(t, doc, line, args)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d command lines: the pattern is wrong", found)
	}
}

func TestExamplesAreValidSettings(t *testing.T) {
	files, err := fs.Glob(os.DirFS(root), "examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		r, err := flags.Parse([]string{"--config", f}, options())
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if p := r.Bench.Dataset.Path; p != "" {
			if _, err := os.Stat(filepath.Join(root, p)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
		if usage := "spate bench --config " + f; !strings.Contains(read(t, f), usage) {
			t.Errorf("%s does not say how to use it: %s", f, usage)
		}
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	for _, doc := range documents(t) {
		for _, m := range mdLink.FindAllStringSubmatch(read(t, doc), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
}

func TestMakeTargetsInDocumentsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, doc := range documents(t) {
		for _, m := range makeWord.FindAllStringSubmatch(read(t, doc), -1) {
			if target := m[1] + m[2]; !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s says make %s, which the Makefile does not have", doc, target)
			}
		}
	}
}

func options() flags.Options {
	return flags.Options{
		Env:      func(string) (string, bool) { return "", false },
		ReadFile: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(root, name)) },
		IDPrefix: "doc-",
	}
}

// commandLines joins continued lines and drops what follows a comment mark.
func commandLines(block string) []string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", " "), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "$ "))
		if line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// shellWords splits a line as a shell does, as far as documents need it.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, byte(0)
	for i := range len(line) {
		c := line[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == '#' && !in:
			return words, nil
		case c == ' ' || c == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// spateArgs are the arguments of a command line that calls spate, up to a pipe or another command.
func spateArgs(words []string) ([]string, bool) {
	for len(words) > 0 && strings.Contains(words[0], "=") {
		words = words[1:] // environment
	}
	if end := slices.IndexFunc(words, func(w string) bool { return slices.Contains([]string{"|", "&", "&&", ";", ">"}, w) }); end >= 0 {
		words = words[:end]
	}
	switch {
	case len(words) > 2 && words[0] == "go" && words[1] == "run" && strings.HasSuffix(words[2], "cmd/spate"):
		return words[3:], true
	case len(words) > 0 && (words[0] == "spate" || strings.HasSuffix(words[0], "/spate")):
		return words[1:], true
	}
	return nil, false
}

// inOwnWords translates a command line of another tool, marked by a leading --compat.
func inOwnWords(args []string) ([]string, error) {
	if len(args) < 2 || args[0] != "--compat" {
		return args, nil
	}
	name, err := dialect.Parse(args[1])
	if err != nil {
		return nil, err
	}
	t, err := name.Arguments(args[2:])
	if err != nil {
		return nil, err
	}
	return t.Args, nil
}

// checkCommand has bench lines parsed for real, and looks the flags of other commands up in their help.
func checkCommand(t *testing.T, doc, line string, args []string) {
	t.Helper()
	if len(args) == 0 {
		return
	}
	if args[0] == "bench" {
		rest := args[1:]
		if len(rest) > 0 && rest[0] == "serve" {
			rest = rest[1:]
		}
		rest, err := inOwnWords(rest)
		if err == nil {
			_, err = flags.Parse(rest, options())
		}
		if err != nil {
			t.Errorf("%s: %s\n%v", doc, line, err)
		}
		return
	}
	var help, complaint bytes.Buffer
	code := cli.Run(context.Background(), cli.Process{
		Args: []string{args[0], "--help"}, Stdin: strings.NewReader(""), Stdout: &help, Stderr: &complaint,
		Env: func(string) (string, bool) { return "", false }, ReadFile: options().ReadFile,
	})
	if code != 0 {
		t.Errorf("%s: %s\n%s", doc, line, complaint.String())
		return
	}
	for _, a := range args[1:] {
		name, _, _ := strings.Cut(a, "=")
		if strings.HasPrefix(name, "--") && !strings.Contains(help.String(), name) {
			t.Errorf("%s: %s\nspate %s has no flag %s", doc, line, args[0], name)
		}
	}
}
