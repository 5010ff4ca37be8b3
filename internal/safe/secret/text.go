package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const value = `\$\{[^}\s]*\}|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|[^\s"',;&<>()\[\]{}]+`

var (
	schemeUser = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/\s"']+@)`)
	userinfo   = regexp.MustCompile(`((?:^|[\s"'=,])(?:[A-Za-z][A-Za-z0-9+.-]*://)?)([^/\s@"'=,]*:[^/\s@"']*@)`)
	header     = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[=:]\s*["']?)([^\n"']+)`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+|%20)([^\s"',;]+)`)
	query      = regexp.MustCompile(`([?&;])([A-Za-z0-9_.~%$-]+)=([^&\s"'#;]+)`)
	flagged    = regexp.MustCompile(`(^|[\s"'(=\[,])(--?[A-Za-z][A-Za-z0-9_.-]*)(\s+|=|["'],\s*["']?)(` + value + `)`)
	named      = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)(["']?)(\s*[=:]\s*)(\[[^\]\n]*\]?|` + value + `)`)
	pem        = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	knownKeys  = regexp.MustCompile(`\b(?:(?:sk|pk|rk|gsk|csk|nvapi|hf|api_org|xai|pplx|ghp|gho|ghu|ghs|ghr|github_pat|glpat|npm|dckr_pat|dop_v1|tgp|fw|r8|xox[abeprs])[-_][A-Za-z0-9_-]{12,}` +
		`|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)
)

// signs are parts of everything that the patterns above find, in lower case: a text without any is left alone.
var signs = []string{
	"@", "secret", "passw", "passphrase", "passcode", "pass", "pwd", "credential", "auth", "bearer", "basic", "key", "token", "cookie", "jwt", "sig", "session", "code",
	"sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "nvapi", "hf_", "hf-", "api_org", "xai", "pplx", "gh", "glpat", "npm", "dckr", "dop_v1", "tgp", "fw", "r8", "xox",
	"akia", "asia", "aiza", "ya29", "eyj",
}

// Text hides what looks like a secret anywhere in a text: user names and passwords in URLs, bearer tokens, keys
// in queries, the values of flags, variables and keys whose names mean secrets, and keys with a well-known prefix.
func Text(text string) string { return hider(redacted).text(text) }

func (h hider) text(text string) string {
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(lower, s) }) {
		return text
	}
	text = pem.ReplaceAllStringFunc(text, h.nameless)
	text = replace(schemeUser, text, h.user)
	text = replace(userinfo, text, h.user)
	text = replace(header, text, func(m []string) string { return m[1] + m[2] + h(m[1], strings.TrimRight(m[3], " ")) })
	text = replace(bearer, text, func(m []string) string { return m[1] + m[2] + h("token", m[3]) })
	text = replace(query, text, h.parameter)
	text = replace(flagged, text, h.flag)
	text = replace(named, text, h.named)
	return knownKeys.ReplaceAllStringFunc(text, h.nameless)
}

// nameless hides a secret that nothing gives a name to.
func (h hider) nameless(value string) string { return h("secret", value) }

// user hides what stands before the @ of a URL.
func (h hider) user(m []string) string {
	name, password, ok := strings.Cut(strings.TrimSuffix(m[2], "@"), ":")
	if ok {
		h("password", password) // for those who collect secrets: it stands alone elsewhere
		if Reference(password) && known(name) {
			return m[0]
		}
	}
	return m[1] + h("url_user", strings.TrimSuffix(m[2], "@")) + "@"
}

// replace is ReplaceAllStringFunc with the groups of each match.
func replace(re *regexp.Regexp, text string, with func(groups []string) string) string {
	found := re.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var out strings.Builder
	at := 0
	for _, m := range found {
		groups := make([]string, len(m)/2)
		for i := range groups {
			if m[2*i] >= 0 {
				groups[i] = text[m[2*i]:m[2*i+1]]
			}
		}
		out.WriteString(text[at:m[0]])
		out.WriteString(with(groups))
		at = m[1]
	}
	out.WriteString(text[at:])
	return out.String()
}

// parameter hides the value of a URL's parameter.
func (h hider) parameter(m []string) string {
	name := m[2]
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	if !Variable(name, m[3]) && (name != "code" || plain(m[3])) {
		return m[0]
	}
	return m[1] + m[2] + "=" + h(name, m[3])
}

// flag hides the value of a flag in a command that stands in a text.
func (h hider) flag(m []string) string {
	name := strings.TrimLeft(m[2], "-")
	bare := strings.Trim(m[4], `"'`)
	joined := m[3] == "="
	switch {
	case !flagHolds(name, bare), known(bare), !joined && (strings.HasPrefix(bare, "-") || placeholder(bare)):
		return m[0]
	}
	return m[1] + m[2] + m[3] + h.quoted(name, m[4])
}

// flagHolds reports whether a flag of that name has a secret for its value.
func flagHolds(name, value string) bool {
	words := wordsOf(name)
	switch {
	case Name(name):
		return true
	case len(words) > 1 && words[len(words)-1] == "token":
		return !plain(value)
	}
	return perhaps(name) && random(value)
}

// placeholder reports whether what follows a flag is no value but the next word of a sentence, or stands for one.
func placeholder(word string) bool {
	switch word {
	case "KEY", "TOKEN", "VALUE", "SECRET", "STRING", "PASSWORD", "NAME", "...",
		"again", "and", "cannot", "for", "given", "has", "if", "in", "is", "must", "needs", "of", "or", "takes", "to", "twice", "wants", "was", "when", "with":
		return true
	}
	return special.MatchString(word)
}

// named hides the value of NAME=VALUE, "name": "value" and name: value.
func (h hider) named(m []string) string {
	name, quote, between, val := m[1], m[2], m[3], m[4]
	bare := strings.Trim(val, `"'[] `)
	if known(bare) || plain(bare) || placeholder(bare) {
		return m[0]
	}
	written := strings.Contains(between, "=") || quote != "" || bare != val
	switch {
	case surely(name) && (written || !prose(bare)):
	case perhaps(name) && random(bare):
	case strings.ToUpper(name) == name && strings.Contains(between, "=") && Variable(name, bare): // an environment variable
	default:
		return m[0]
	}
	return name + quote + between + h.quoted(name, val)
}

// prose reports whether a value after a colon is the next word of a sentence.
func prose(word string) bool {
	return !strings.ContainsAny(word, "0123456789") && strings.ToLower(word[1:]) == word[1:]
}

// quoted hides a value and keeps the quotes and brackets it had.
func (h hider) quoted(name, val string) string {
	open := val[:len(val)-len(strings.TrimLeft(val, `"'[`))]
	rest := strings.TrimRight(val, `"']`)
	if len(rest) < len(open) {
		return h(name, val)
	}
	return open + h(name, rest[len(open):]) + val[len(rest):]
}
