package doctest

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// command is one line a document tells people to type.
type command struct {
	doc  string
	line int
	text string
}

var (
	shellFence = regexp.MustCompile("^```(sh|bash|console)$")
	anyFence   = regexp.MustCompile("^```")
	inComment  = regexp.MustCompile(`^#\s+((?:spate|make|curl) .*)$`)
	stray      = regexp.MustCompile(`^\s*(?:\$ )?spate (?:bench|sim|sweep|capacity|tune|plan|predict|calibrate|import|list|compare|report|explain|launch|record|dataset|worker|fleet) `)
)

// documents are the files with commands in them, by the pattern that finds them.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"README.md", "docs/*.md", "examples/*.*", "examples/*/*.*"} {
		names, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, names...)
	}
	return all
}

// commands are those of one document, in order. Lines that end in a backslash go on in the next.
func commands(t *testing.T, doc string) []command {
	t.Helper()
	raw, err := os.ReadFile(root + "/" + doc)
	if err != nil {
		t.Fatal(err)
	}
	var out []command
	fenced, shell, continued := false, false, false
	for i, line := range strings.Split(string(raw), "\n") {
		markdown := strings.HasSuffix(doc, ".md")
		switch {
		case markdown && anyFence.MatchString(line):
			shell = !fenced && shellFence.MatchString(line)
			fenced = !fenced
			continue
		case markdown && !shell:
			if stray.MatchString(line) {
				t.Errorf("%s:%d: a command outside a block that begins with ```sh, where no test runs it: %s", doc, i+1, line)
			}
			continue
		case !markdown && !continued:
			m := inComment.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			line = m[1]
		}
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		body, more := strings.CutSuffix(line, "\\")
		switch {
		case continued:
			out[len(out)-1].text += " " + strings.TrimSpace(body)
		case line != "" && line[0] != '#':
			out = append(out, command{doc, i + 1, strings.TrimSpace(body)})
		default:
			continue
		}
		continued = more
	}
	return out
}
