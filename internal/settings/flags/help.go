package flags

import (
	"fmt"
	"io"
	"strings"

	"spate/internal/nearest"
)

const (
	helpWidth  = 96
	helpColumn = 30
)

const helpHead = `Usage: spate bench [serve] [flags]

Sends requests to an LLM server and reports latency and throughput: the block and the JSON of
vllm bench serve, then how far the numbers can be trusted. Every flag of vllm bench serve works,
and so do the names other tools have for them ("also" below).
`

const helpExamples = `
Examples:
  spate bench --num-prompts 200                      vLLM on this machine, its own model
  spate bench --url http://gpu:8000 --isl 1024 --osl 128 --concurrency 32 --duration 60s
  spate bench --backend openai-chat --base-url https://api.example.com --model NAME \
      --request-rate 4 --goodput ttft:500 tpot:50 --save-result
  spate bench --stages 30s@2,60s@8 --slo 'p99_ttft<500ms,error_rate<1%'
  spate bench --sim --num-prompts 100 --request-rate 20
`

const helpTail = `
Flags may be abbreviated, spelled with _ for -, and written --flag value or --flag=value. Each can
stand in a --config file, or in the environment as SPATE_ and its name (SPATE_MAX_CONCURRENCY=8).
The command line wins over the file, the file over the environment. OPENAI_API_KEY is the bearer
token.
Exit codes: 0 done, 1 every request failed or spate did, 2 usage, 3 an objective was not met,
130 interrupted.
`

const helpMore = `These are the main flags. --help=all shows all %d, --help=GROUP one group (%s), --help=WORD those a word occurs in.`

// WriteHelp prints help: the main flags for no topic, every flag for "all", one group for its name,
// and otherwise the flags in which the topic occurs.
func WriteHelp(w io.Writer, topic string) error {
	_, defs := fresh()
	var b strings.Builder
	switch topic = strings.ToLower(strings.TrimSpace(topic)); {
	case topic == "":
		b.WriteString(helpHead + helpExamples)
		writeGroups(&b, defs, func(d *Def) bool { return d.Main })
		b.WriteString(helpTail)
		b.WriteByte('\n')
		for _, line := range wrap(fmt.Sprintf(helpMore, len(defs), groupNames()), helpWidth) {
			b.WriteString(line + "\n")
		}
	case topic == "all":
		b.WriteString(helpHead + helpExamples)
		writeGroups(&b, defs, func(*Def) bool { return true })
		b.WriteString(helpTail)
	case isGroup(topic):
		writeGroups(&b, defs, func(d *Def) bool { return string(d.Group) == topic })
	default:
		writeSearch(&b, defs, topic)
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("write help: %w", err)
	}
	return nil
}

func isGroup(topic string) bool {
	for _, g := range groups {
		if string(g.Group) == topic {
			return true
		}
	}
	return false
}

func groupNames() string {
	var names []string
	for _, g := range groups {
		names = append(names, string(g.Group))
	}
	return strings.Join(names, ", ")
}

func writeSearch(b *strings.Builder, defs []*Def, word string) {
	word = fold(strings.TrimLeft(word, "-"))
	start := b.Len()
	writeGroups(b, defs, func(d *Def) bool { return d.mentions(word) })
	if b.Len() > start {
		return
	}
	fmt.Fprintf(b, "No flag mentions %q.", word)
	if best := nearest.Word(word, newIndex(defs).names()); best != "" {
		fmt.Fprintf(b, " The nearest is --%s.", best)
	}
	b.WriteString(" --help=all shows every flag.\n")
}

func (d *Def) mentions(word string) bool {
	text := d.Name + " " + d.Help + " " + strings.Join(d.Choices, " ") + " " + strings.Join(d.Later, " ")
	for _, a := range d.Also {
		text += " " + a.Name
	}
	return strings.Contains(fold(strings.ToLower(text)), word)
}

func writeGroups(b *strings.Builder, defs []*Def, keep func(*Def) bool) {
	for _, g := range groups {
		begun := false
		for _, d := range defs {
			if d.Group != g.Group || !keep(d) {
				continue
			}
			if !begun {
				fmt.Fprintf(b, "\n%s: %s\n", g.Group, g.Title)
				begun = true
			}
			writeFlag(b, d)
		}
	}
}

// writeFlag prints one flag in two columns.
func writeFlag(b *strings.Builder, d *Def) {
	left := "  --" + d.Name
	if d.value.arity == tri {
		left += ", --no-" + d.Name
	}
	if t := d.Type(); t != "" {
		left += " " + t
	}
	if d.value.arity == many {
		left += " ..."
	}
	if len(left) >= helpColumn-1 {
		b.WriteString(left + "\n")
		left = ""
	}
	for i, line := range wrap(d.describe(), helpWidth-helpColumn) {
		if i > 0 {
			left = ""
		}
		fmt.Fprintf(b, "%-*s%s\n", helpColumn, left, line)
	}
}

// describe is the help text with all the table knows.
func (d *Def) describe() string {
	text := d.Help
	if len(d.Choices) > 0 {
		text += "; one of " + strings.Join(d.Choices, ", ")
	}
	if d.Default != "" {
		text += " (default " + d.Default + ")"
	}
	if len(d.Also) > 0 {
		names := make([]string, len(d.Also))
		for i, a := range d.Also {
			names[i] = dashed(a.Name)
		}
		text += " [also " + strings.Join(names, ", ") + "]"
	}
	if d.Needs != "" {
		if !strings.HasPrefix(d.Needs, "spate ") {
			text += " [not supported: " + d.Needs + "]"
		} else {
			text += " [" + d.Needs + "]"
		}
	}
	return text
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// wrap breaks text at spaces so that no line is wider than width, single words aside.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
