package secret

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// hider is what stands for a secret that a flag or variable of some name holds.
type hider func(name, value string) string

func redacted(_, value string) string {
	if known(value) {
		return value
	}
	return Redacted
}

// refer is a reference to the secret, for files that are to be run again.
func refer(name, value string) string {
	if known(value) {
		return value
	}
	return "${" + strings.ToUpper(strings.Join(wordsOf(name), "_")) + "}"
}

// Args returns a copy of a command line that may be saved and shown: API keys, authorization headers, passwords
// inside URLs and tokens inside JSON are replaced. It looks at the words as they were typed, since a command
// that did not parse must not leak either.
func Args(args []string) []string { return hider(redacted).args(args) }

// Refer is Args for files that are to be run again: a secret becomes a reference to a variable of its name.
func Refer(args []string) []string { return hider(refer).args(args) }

var references = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Expand fills in the references of a word by what lookup knows; an error names one that it does not.
func Expand(word string, lookup func(name string) (string, bool)) (string, error) {
	var missing error
	out := references.ReplaceAllStringFunc(word, func(ref string) string {
		value, ok := lookup(ref[2 : len(ref)-1])
		if !ok && missing == nil {
			missing = fmt.Errorf("%s is not set in the environment", ref[2:len(ref)-1])
		}
		return value
	})
	return out, missing
}

// Missing are the variables that words refer to for a secret and lookup does not know.
func Missing(words []string, lookup func(name string) (string, bool)) []string {
	var out []string
	for _, w := range words {
		for _, m := range references.FindAllStringSubmatch(w, -1) {
			if _, ok := lookup(m[1]); !ok && (Name(m[1]) || perhaps(m[1])) && !slices.Contains(out, m[1]) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// Env is a list of NAME=value without the secrets.
func Env(list []string) []string { return hider(redacted).env(list) }

// ReferEnv is Env for files that are to be run again.
func ReferEnv(list []string) []string { return hider(refer).env(list) }

// Values are the secrets in a command line and an environment, the longest first, so that replacing one which
// contains another leaves no rest. What is too short to be told from other words is left out.
func Values(args, env []string) []string {
	var out []string
	take := hider(func(_, value string) string {
		if len(value) >= shortest && !known(value) && (!plain(value) || len(value) > len("default")) {
			out = append(out, value)
		}
		return Redacted
	})
	take.args(args)
	take.env(env)
	slices.SortFunc(out, func(x, y string) int { return len(y) - len(x) })
	return slices.Compact(out)
}

// shortest is the length below which a secret is not looked for in other texts: it would be found in any.
const shortest = 4

// Scrub takes known secrets and whatever looks like one out of a text, such as a server's message that quotes
// the key back.
func Scrub(text string, values []string) string {
	for _, s := range values {
		text = strings.ReplaceAll(text, s, Redacted)
	}
	return Text(text)
}

func (h hider) env(list []string) []string {
	out := slices.Clone(list)
	for i, pair := range out {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok:
			out[i] = h.text(pair)
		case Variable(name, value):
			out[i] = name + "=" + h(name, value)
		default:
			out[i] = name + "=" + h.value("", value)
		}
	}
	return out
}

func (h hider) args(args []string) []string {
	out := make([]string, len(args))
	var flag string // the last flag seen, for the values that follow it
	for i, arg := range args {
		name, value, isFlag, joined := splitFlag(arg)
		switch {
		case isFlag && joined:
			out[i] = arg[:len(arg)-len(value)] + h.value(name, value)
			flag = name
		case isFlag:
			out[i] = h.text(arg)
			flag = name
		default:
			out[i] = h.value(flag, arg)
		}
		if !isFlag && !manyValues(flag) {
			flag = ""
		}
	}
	return out
}

// splitFlag takes --name=value apart.
func splitFlag(arg string) (name, value string, isFlag, joined bool) {
	if len(arg) < 2 || arg[0] != '-' || strings.ContainsAny(arg[1:2], "0123456789.") || strings.ContainsAny(arg, " \t\n") && !strings.HasPrefix(arg, "--") {
		return "", "", false, false
	}
	name, value, joined = strings.Cut(arg, "=")
	name = strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "-")), "_", "-") // as the parser takes it
	return name, value, true, joined
}

// manyValues reports whether a flag goes on taking values: a header flag may be followed by several.
func manyValues(flag string) bool { return isHeaderFlag(flag) || isSecretFlag(flag) }

// isHeaderFlag accepts every abbreviation, because the parser does.
func isHeaderFlag(flag string) bool {
	return flag == "h" || len(flag) >= 2 && strings.HasPrefix("header", flag) || flag == "headers"
}

func isSecretFlag(flag string) bool {
	return len(flag) >= 2 && strings.HasPrefix("api-key", flag) || Name(flag)
}

func (h hider) value(flag, value string) string {
	switch {
	case value == "":
		return value
	case isSecretFlag(flag), flagHolds(flag, value):
		return h(flag, value)
	case isHeaderFlag(flag):
		if at := strings.IndexAny(value, "=:"); at > 0 && !Header(value[:at]) {
			return h.text(value)
		}
		return h.pair(value)
	}
	if clean, ok := h.json(value); ok {
		return clean
	}
	command := (flag == "" || flag == "c") && strings.ContainsAny(value, " \t\n") // of a shell: the variable is only its beginning
	if at := strings.IndexAny(value, "=:"); at > 0 && !command && isName(value[:at]) && (Name(value[:at]) || value[at] == '=' && Variable(value[:at], value[at+1:])) {
		return h.pair(value)
	}
	return h.text(value)
}

// pair keeps the name of NAME=VALUE and hides the rest; without a name everything goes.
func (h hider) pair(text string) string {
	if at := strings.IndexAny(text, "=:"); at > 0 {
		name, value := text[:at], text[at+1:]
		trimmed := strings.TrimLeft(value, " ")
		if _, bare, ok := strings.Cut(trimmed, " "); ok {
			h(name, bare) // for those who collect secrets: it stands alone elsewhere
		}
		if known(trimmed) {
			return text
		}
		return text[:at+1] + h(name, trimmed)
	}
	return h("secret", text)
}

// isName reports whether a word may be the name of a variable, a key or a header.
func isName(word string) bool {
	for _, r := range word {
		if !strings.ContainsRune("-_.~!#$%&'*+^`|", r) && (r > 'z' || r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a') {
			return false
		}
	}
	return word != ""
}
