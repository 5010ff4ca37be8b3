package flags

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func helpText(t *testing.T, topic string) string {
	t.Helper()
	var b strings.Builder
	if err := WriteHelp(&b, topic); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHelpAllShowsEverySpelling(t *testing.T) {
	text := helpText(t, "all")
	for _, d := range Table() {
		if !strings.Contains(text, "  --"+d.Name) {
			t.Errorf("--%s is missing", d.Name)
		}
		for _, a := range d.Also {
			if !strings.Contains(text, dashed(a.Name)) {
				t.Errorf("%s, another name of --%s, is missing", dashed(a.Name), d.Name)
			}
		}
	}
}

func TestHelpFitsTheScreen(t *testing.T) {
	for line := range strings.SplitSeq(helpText(t, "all"), "\n") {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestHelpTopics(t *testing.T) {
	short := helpText(t, "")
	if strings.Contains(short, "--hf-subset") || !strings.Contains(short, "--num-prompts") || !strings.Contains(short, "Examples:") {
		t.Error("the short help does not show the main flags alone")
	}
	if got := helpText(t, "sim"); !strings.Contains(got, "--sim-faults") || strings.Contains(got, "--port") {
		t.Errorf("group sim: %s", got)
	}
	if got := helpText(t, "concurrency"); !strings.Contains(got, "--max-concurrency") || strings.Contains(got, "--port") {
		t.Errorf("search: %s", got)
	}
	if got := helpText(t, "--ISL"); !strings.Contains(got, "--input-len") {
		t.Errorf("search by another tool's name: %s", got)
	}
	if got := helpText(t, "concurency"); !strings.Contains(got, "The nearest is --concurrency") {
		t.Errorf("no match: %s", got)
	}
}

func TestHelpWinsOverMistakes(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--nonsense", "--help"}, {"--help=all"}, {"--model", "x", "--hel"}} {
		r, err := Parse(args, Options{})
		if err != nil || !r.Help {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestComplete(t *testing.T) {
	texts := func(args []string, word string) []string {
		offers, _ := Complete(args, word)
		var out []string
		for _, o := range offers {
			out = append(out, o.Text)
		}
		return out
	}
	if got := texts(nil, "--max-c"); !slices.Equal(got, []string{"--max-concurrency"}) {
		t.Errorf("name: %q", got)
	}
	if got := texts(nil, "--num_pr"); !slices.Contains(got, "--num-prompts") {
		t.Errorf("underscores: %q", got)
	}
	if got := texts([]string{"--dataset-name"}, "so"); !slices.Equal(got, []string{"sonnet"}) {
		t.Errorf("choices: %q", got)
	}
	if got := texts(nil, "--backend=openai-c"); !slices.Equal(got, []string{"--backend=openai-chat"}) {
		t.Errorf("joined: %q", got)
	}
	if got := texts(nil, "-"); slices.Contains(got, "--concurrency") || slices.Contains(got, "--tokenizer-revision") || !slices.Contains(got, "--model") {
		t.Errorf("everything at once: %q", got)
	}
	if _, files := Complete([]string{"--dataset-path"}, ""); !files {
		t.Error("a path is not completed with files")
	}
	if got := texts([]string{"--nonsense"}, "x"); got != nil {
		t.Errorf("unknown flag: %q", got)
	}
}

// TestLimitsAreDocumented holds how long a run waits by default to what docs/failures.md tells: an hour for a request,
// minutes for a stream that stands still. Nothing in a pipeline waits longer unless it is told to.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	units := strings.NewReplacer(" min", "m", " s", "s", " h", "h")
	for name, want := range map[string]string{"request-timeout": "1h", "idle-timeout": "10m", "grace-period": "30s", "launch-timeout": "10m"} {
		told := ""
		for line := range strings.SplitSeq(string(page), "\n") {
			if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(cells[2], "`--"+name+"`") {
				told = units.Replace(cells[1])
			}
		}
		at := slices.IndexFunc(Table(), func(d *Def) bool { return d.Name == name })
		if at < 0 || Table()[at].Default != want || told != want {
			t.Errorf("--%s: docs/failures.md tells %q, want %s in both", name, told, want)
		}
	}
}
