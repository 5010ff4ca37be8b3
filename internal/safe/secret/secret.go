// Package secret knows what a secret looks like, and hides it. Whatever writes for people, for files or for
// the store asks here: words of command lines and environments (words.go), free text such as errors and logs
// (text.go), and JSON (json.go). A reference such as ${HF_TOKEN} is no secret and stays. Read this file first:
// it says which names mean secrets.
package secret

import (
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Redacted stands for a secret wherever something is shown or saved.
const Redacted = "REDACTED"

// Value is a string that does not print, log or marshal itself. Reveal gives it to the one place
// that sends it.
type Value string

// Reveal returns the secret itself.
func (v Value) Reveal() string { return string(v) }

// String hides the secret.
func (v Value) String() string {
	if v == "" {
		return ""
	}
	return Redacted
}

// GoString hides the secret from %#v.
func (v Value) GoString() string { return strconv.Quote(v.String()) }

// MarshalText hides the secret from JSON and YAML.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// LogValue hides the secret from logs.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }

var (
	// within a word, whatever stands around them
	parts = []string{
		"secret", "password", "passwd", "passphrase", "passcode", "credential", "authorization", "bearer", "apikey", "privatekey", "accesskey",
		"accesstoken", "authtoken", "sessiontoken", "refreshtoken", "hftoken", "apitoken", "subscriptionkey", "securitytoken",
	}
	// two words in a row
	pairs = []string{
		"api key", "private key", "access key", "account key", "shared key", "signing key", "master key", "encryption key", "subscription key",
		"auth key", "access token", "auth token", "session token", "refresh token", "id token", "hf token", "hub token", "api token",
		"security token", "oauth token", "sas token", "client secret",
	}
	// a name of one word
	alone = []string{"token", "auth", "key", "pwd", "cookie", "jwt"}
	// the last word of a name that may mean a secret, or something else
	last = []string{"token", "key", "auth", "pwd", "pass", "sig", "signature", "cookie", "jwt"}
)

// wordsOf takes a name apart: api-key, API_KEY, api.key and apiKey are the same two words.
func wordsOf(name string) []string {
	var out []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	var before rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && unicode.IsLower(before):
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		before = r
	}
	end()
	return out
}

// Name reports whether a flag, variable, JSON key or label of that name holds a secret, whatever its value. It
// lets max_tokens, tokenizer, prompt-token-ids and key_value pass.
func Name(name string) bool {
	return surely(name) || name != workingFolder && slices.Contains(alone, strings.Join(wordsOf(name), " "))
}

// workingFolder is the one variable whose name only looks like a password's.
const workingFolder = "PWD"

// surely is Name without the words that also stand in sentences.
func surely(name string) bool {
	words := wordsOf(name)
	for i, w := range words {
		if slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(w, p) }) {
			return true
		}
		if i > 0 && slices.Contains(pairs, words[i-1]+" "+w) {
			return true
		}
	}
	return false
}

// perhaps reports whether a name may mean a secret; its value decides.
func perhaps(name string) bool {
	words := wordsOf(name)
	return len(words) > 0 && name != workingFolder && slices.Contains(last, words[len(words)-1])
}

// Header reports whether a header of that name holds a secret. It errs on the side of hiding.
func Header(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "key", "token", "secret", "cookie", "password", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// Variable reports whether an environment variable or a URL's parameter holds a secret.
func Variable(name, value string) bool { return Name(name) || perhaps(name) && !plain(value) }

var (
	reference = regexp.MustCompile(`^(?i:bearer +|basic +)?\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|\([A-Za-z_][A-Za-z0-9_]*\))$`)
	special   = regexp.MustCompile(`^<.*>$`)
)

// Reference reports whether a value only says where the secret is: ${NAME} or $NAME.
func Reference(value string) bool { return reference.MatchString(value) }

// known reports whether there is nothing to hide in a value: it is hidden already, or only a reference.
func known(value string) bool { return value == "" || value == Redacted || Reference(value) }

// plain reports whether a value is too simple to be a secret.
func plain(value string) bool {
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return true
	}
	switch strings.ToLower(value) {
	case "", "true", "false", "none", "null", "on", "off", "auto", "default":
		return true
	}
	return special.MatchString(value) || strings.HasPrefix(value, "/") && strings.Count(value, "/") > 1 // a path
}

// random reports whether a value looks drawn rather than written: long, of letters and digits, and evenly so.
func random(value string) bool {
	const shortest, evenness = 16, 3.0
	if len(value) < shortest {
		return false
	}
	var counts [128]int
	letters, digits := 0, 0
	for i := range len(value) {
		c := value[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			letters++
		case !strings.ContainsRune("+/=_.-~", rune(c)):
			return false
		}
		counts[c]++
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			share := float64(n) / float64(len(value))
			bits -= share * math.Log2(share)
		}
	}
	return letters > 0 && digits > 0 && bits >= evenness
}
