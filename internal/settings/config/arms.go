package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"spate/internal/safe/secret"
)

// Repeat says how often a run is made, and with which changes in turn.
type Repeat struct {
	Times     int    `json:"times,omitempty"` // 0: once
	Arms      []Arm  `json:"-"`               // not written: they may hold secrets, and each run has its own settings
	NoiseFile string `json:"noise_file,omitempty"`
}

// Arm is one of several settings that are measured in turn: a name and what it changes.
type Arm struct {
	Name  string
	URL   string   // base URL; empty leaves it as it is
	Flags []string // further flags, each a word
}

// Series reports whether there is more than one run to make.
func (r *Repeat) Series() bool { return r.Times > 1 || len(r.Arms) > 0 }

// Equal reports whether all arms are the same but for their names, so that what differs is noise.
func (r *Repeat) Equal() bool {
	for _, a := range r.Arms {
		if a.URL != r.Arms[0].URL || !slices.Equal(a.Flags, r.Arms[0].Flags) {
			return false
		}
	}
	return len(r.Arms) > 1
}

// String is the arm as it is typed.
func (a Arm) String() string {
	parts := make([]string, 0, 1+len(a.Flags))
	if a.URL != "" {
		parts = append(parts, quoteWord(a.URL))
	}
	for _, f := range a.Flags {
		parts = append(parts, quoteWord(f))
	}
	return a.Name + "=" + strings.Join(parts, " ")
}

// quoteWord protects a word from being split.
func quoteWord(w string) string {
	if w != "" && !strings.ContainsAny(w, " \t\n\r'\"\\,") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

const armForm = "arms look like A=http://one:8000,B=http://two:8000 or A=,B='--max-concurrency 8'"

// armStart is where an arm begins after a comma: a name, an equals sign, and then a URL, a flag, nothing, or
// quotes. A comma elsewhere belongs to the value before it.
var armStart = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9_.-]*)=\s*(?:https?://|-|'|"|,|$)`)

// ParseArms reads a list of arms.
func ParseArms(text string) ([]Arm, error) {
	var out []Arm
	for _, part := range splitArms(text) {
		arm, err := parseArm(part)
		if err != nil {
			return nil, err
		}
		out = append(out, arm)
	}
	if len(out) == 0 {
		return nil, errors.New("names no arm: " + armForm)
	}
	return out, nil
}

// splitArms cuts at the commas that stand before an arm, outside of quotes.
func splitArms(text string) []string {
	var out []string
	from, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote == 0 && c == '\\':
			i++
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && c == ',' && armStart.MatchString(text[i+1:]):
			out = append(out, text[from:i])
			from = i + 1
		}
	}
	if strings.TrimSpace(text[from:]) != "" {
		out = append(out, text[from:])
	}
	return out
}

var armName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func parseArm(text string) (Arm, error) {
	name, rest, ok := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if !ok || !armName.MatchString(name) {
		return Arm{}, fmt.Errorf("%q does not begin with a name and =: %s", strings.TrimSpace(text), armForm)
	}
	words, err := splitWords(strings.TrimSuffix(strings.TrimSpace(rest), ","))
	if err != nil {
		return Arm{}, fmt.Errorf("arm %s: %w", name, err)
	}
	arm := Arm{Name: name}
	// Quotes around all of an arm's flags, as in B='--max-concurrency 8', make one word of them.
	if len(words) == 1 && strings.HasPrefix(words[0], "-") && strings.ContainsAny(words[0], " \t") {
		if words, err = splitWords(words[0]); err != nil {
			return Arm{}, fmt.Errorf("arm %s: %w", name, err)
		}
	}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		if !validURL(words[0]) {
			return Arm{}, fmt.Errorf("arm %s: %q is neither a URL such as http://localhost:8000 nor a flag", name, secret.Text(words[0]))
		}
		arm.URL, words = words[0], words[1:]
	}
	arm.Flags = words
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		return Arm{}, fmt.Errorf("arm %s: %q is not a flag", name, words[0])
	}
	return arm, nil
}

// splitWords splits as a shell does: at blanks, with quotes and backslashes.
func splitWords(text string) ([]string, error) {
	var out []string
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			if open {
				out = append(out, word.String())
				word.Reset()
			}
			open = false
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			open = true
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%q has an open %c", secret.Text(text), quote)
	}
	if open {
		out = append(out, word.String())
	}
	return out, nil
}

// maxRepeats bounds a series against a slip of the finger.
const maxRepeats = 1000

func (b *Bench) checkRepeat(c *checker) {
	r := &b.Repeat
	c.Want(r.Times >= 0 && r.Times <= maxRepeats, "repeat", "%d is not between 1 and %d", r.Times, maxRepeats)
	if !r.Series() {
		return
	}
	c.Want(len(r.Arms) != 1, "interleave", "one arm has nothing to be compared with: %s", armForm)
	for i, a := range r.Arms {
		same := slices.ContainsFunc(r.Arms[:i], func(o Arm) bool { return o.Name == a.Name })
		c.Want(!same, "interleave", "two arms are called %s", a.Name)
	}
	c.Clash(b.Output.NoOutput, "no-output", "repeat", "without run folders there is nothing to compare")
}
