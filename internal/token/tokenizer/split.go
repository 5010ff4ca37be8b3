package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// piece is a part of the text on its way to the model.
type piece struct {
	text  string
	first bool // it begins where the text begins
}

// splitter cuts one piece into several, appended to dst.
type splitter func(dst []piece, p piece) []piece

// span is a part of a string that a pattern matched, or did not.
type span struct {
	start, end int
	match      bool
}

// pattern finds matches; spans covers all of s, matches and what is between.
type pattern interface {
	spans(dst []span, s string) []span
}

// literal is a pattern that matches itself.
type literal string

func (l literal) spans(dst []span, s string) []span {
	at := 0
	for l != "" {
		i := strings.Index(s[at:], string(l))
		if i < 0 {
			break
		}
		dst = appendSpan(dst, span{at, at + i, false})
		at += i
		dst = append(dst, span{at, at + len(l), true})
		at += len(l)
	}
	return appendSpan(dst, span{at, len(s), false})
}

func appendSpan(dst []span, s span) []span {
	if s.start == s.end {
		return dst
	}
	return append(dst, s)
}

// regex is a pattern in the syntax of Oniguruma, run by a backtracking engine.
type regex struct{ re *regexp2.Regexp }

func compile(expr string) (regex, error) {
	re, err := regexp2.Compile(expr)
	if err != nil {
		return regex{}, fmt.Errorf("pattern %q: %w", expr, err)
	}
	re.MatchTimeout = matchTime
	return regex{re}, nil
}

func (r regex) spans(dst []span, s string) []span {
	at := 0
	found, err := r.re.FindAllStringIndex(s, -1)
	gaveUp(r.re, len(s), err)
	for _, m := range found {
		dst = appendSpan(dst, span{at, m[0], false})
		dst = appendSpan(dst, span{m[0], m[1], true})
		at = m[1]
	}
	return appendSpan(dst, span{at, len(s), false})
}

// runes is a pattern that matches every rune with the property by itself.
type runes func(rune) bool

func (f runes) spans(dst []span, s string) []span {
	at := 0
	for i, r := range s {
		if !f(r) {
			continue
		}
		n := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			n = 1
		}
		dst = appendSpan(dst, span{at, i, false})
		dst = append(dst, span{i, i + n, true})
		at = i + n
	}
	return appendSpan(dst, span{at, len(s), false})
}

// What becomes of the matches of a Split.
const (
	splitRemoved    = "Removed"
	splitIsolated   = "Isolated"
	splitPrevious   = "MergedWithPrevious"
	splitNext       = "MergedWithNext"
	splitContiguous = "Contiguous"
)

// newSplit cuts at the matches of a pattern.
func newSplit(p pattern, behavior string, invert bool) (splitter, error) {
	if !slices.Contains([]string{splitRemoved, splitIsolated, splitPrevious, splitNext, splitContiguous}, behavior) {
		return nil, fmt.Errorf("split behavior %q is not known", behavior)
	}
	return func(dst []piece, in piece) []piece {
		spans := p.spans(nil, in.text)
		if invert {
			for i := range spans {
				spans[i].match = !spans[i].match
			}
		}
		for _, s := range arrange(spans, behavior) {
			dst = append(dst, piece{in.text[s.start:s.end], in.first && s.start == 0})
		}
		return dst
	}, nil
}

// arrange drops or joins spans as the behavior says.
func arrange(spans []span, behavior string) []span {
	out := spans[:0]
	switch behavior {
	case splitRemoved:
		return slices.DeleteFunc(spans, func(s span) bool { return s.match })
	case splitContiguous:
		for _, s := range spans {
			if n := len(out); n > 0 && out[n-1].match == s.match {
				out[n-1].end = s.end
			} else {
				out = append(out, s)
			}
		}
		return out
	case splitPrevious:
		before := false
		for _, s := range spans {
			if n := len(out); n > 0 && s.match && !before {
				out[n-1].end = s.end
			} else {
				out = append(out, s)
			}
			before = s.match
		}
		return out
	case splitNext:
		return mergeNext(spans)
	}
	return spans
}

// mergeNext joins each match with what comes after it, but not two matches.
func mergeNext(spans []span) []span {
	var out []span
	after := false
	for _, s := range slices.Backward(spans) {
		if n := len(out); n > 0 && s.match && !after {
			out[n-1].start = s.start
		} else {
			out = append(out, s)
		}
		after = s.match
	}
	slices.Reverse(out)
	return out
}

// preTokenizer is how the text between added tokens is cut into words.
type preTokenizer struct {
	byteLevel bool       // the vocabulary spells bytes in GPT-2's alphabet
	family    family     // set: one scanner does it all, stages is empty
	stages    []splitter // else these, in order
}

// newPreTokenizer reads a pre_tokenizer node.
func newPreTokenizer(n *node) (preTokenizer, error) {
	nodes := n.flatten(func(n *node) []node { return n.PreTokenizers })
	var p preTokenizer
	var patterns []string // of the stages so far, while all of them isolate
	fast := true
	for _, n := range nodes {
		if p.byteLevel {
			return p, fmt.Errorf("pre-tokenizer %s after ByteLevel is not supported", n.Type)
		}
		stages, regexes, err := newStages(n)
		if err != nil {
			return p, err
		}
		p.byteLevel = n.Type == "ByteLevel"
		p.stages = append(p.stages, stages...)
		patterns = append(patterns, regexes...)
		fast = fast && len(stages) == len(regexes)
	}
	if fast {
		if p.family = familyOf(patterns); p.family != familyNone {
			p.stages = nil
		}
	}
	return p, nil
}

// newStages builds the splitters of one node. patterns has the pattern of each
// that isolates the matches of one, and nothing for any other.
func newStages(n *node) (stages []splitter, patterns []string, err error) {
	one := func(s splitter, err error) ([]splitter, []string, error) { return []splitter{s}, nil, err }
	switch n.Type {
	case "ByteLevel":
		return newByteLevelStages(n)
	case "Split":
		return newSplitStage(n)
	case "Metaspace":
		return one(newMetaspace(n))
	case "BertPreTokenizer":
		stages, err = bertStages()
		return stages, nil, err
	case "Whitespace":
		re, err := compile(`\w+|[^\w\s]+`)
		if err != nil {
			return nil, nil, err
		}
		return one(newSplit(re, splitRemoved, true))
	case "WhitespaceSplit":
		return one(newSplit(runes(spaceRune), splitRemoved, false))
	case "Punctuation":
		behavior := n.Behavior
		if behavior == "" {
			behavior = splitIsolated
		}
		return one(newSplit(runes(punctRune), behavior, false))
	case "Digits":
		behavior := splitContiguous
		if n.IndividualDigits {
			behavior = splitIsolated
		}
		return one(newSplit(runes(numberRune), behavior, false))
	case "CharDelimiterSplit":
		return one(newSplit(literal(n.Delimiter), splitRemoved, false))
	}
	return nil, nil, fmt.Errorf("pre-tokenizer %q is not supported", n.Type)
}

func numberRune(r rune) bool { return splitClasses.of(r)&isNumber != 0 }

func bertStages() ([]splitter, error) {
	space, err := newSplit(runes(spaceRune), splitRemoved, false)
	if err != nil {
		return nil, err
	}
	punct, err := newSplit(runes(punctRune), splitIsolated, false)
	return []splitter{space, punct}, err
}

func newByteLevelStages(n *node) (stages []splitter, patterns []string, err error) {
	if orTrue(n.AddPrefixSpace) {
		stages = append(stages, func(dst []piece, p piece) []piece {
			if !strings.HasPrefix(p.text, " ") {
				p.text = " " + p.text
			}
			return append(dst, p)
		})
	}
	if !orTrue(n.UseRegex) {
		return stages, nil, nil
	}
	s, err := isolate(patternGPT2)
	return append(stages, s), []string{patternGPT2}, err
}

// isolate splits with the scanner of a pattern where it has one.
func isolate(expr string) (splitter, error) {
	f := familyOf([]string{expr})
	if f == familyNone {
		re, err := compile(expr)
		if err != nil {
			return nil, err
		}
		return newSplit(re, splitIsolated, false)
	}
	return func(dst []piece, p piece) []piece {
		for i := 0; i < len(p.text); {
			end := f.next(p.text, i)
			dst = append(dst, piece{p.text[i:end], p.first && i == 0})
			i = end
		}
		return dst
	}, nil
}

func newSplitStage(n *node) (stages []splitter, patterns []string, err error) {
	var s splitter
	switch {
	case n.Pattern.String != nil:
		s, err = newSplit(literal(*n.Pattern.String), n.Behavior, n.Invert)
	case n.Pattern.Regex == nil:
		err = fmt.Errorf("pre-tokenizer Split has no pattern")
	default:
		expr := *n.Pattern.Regex
		whole := familyOf([]string{expr}) != familyNone
		// The known patterns match every character, so dropping what is between
		// their matches is the same as isolating them.
		isolated := n.Behavior == splitIsolated && !n.Invert || whole && n.Behavior == splitRemoved && n.Invert
		if isolated {
			s, err = isolate(expr)
			patterns = []string{expr}
			break
		}
		var re regex
		if re, err = compile(expr); err == nil {
			s, err = newSplit(re, n.Behavior, n.Invert)
		}
	}
	return []splitter{s}, patterns, err
}

// newMetaspace makes spaces visible, and puts one in front, as SentencePiece does.
func newMetaspace(n *node) (splitter, error) {
	mark := n.Replacement
	if utf8.RuneCountInString(mark) != 1 {
		return nil, fmt.Errorf("metaspace replacement %q is not one character", mark)
	}
	scheme := n.PrependScheme
	if scheme == "" {
		scheme = "always"
		if !orTrue(n.AddPrefixSpace) {
			scheme = "never"
		}
	}
	if !slices.Contains([]string{"always", "first", "never"}, scheme) {
		return nil, fmt.Errorf("metaspace prepend_scheme %q is not known", scheme)
	}
	cut := orTrue(n.Split)
	words, err := newSplit(literal(mark), splitNext, false)
	if err != nil {
		return nil, err
	}
	return func(dst []piece, p piece) []piece {
		p.text = replaceAll(p.text, " ", mark)
		if !strings.HasPrefix(p.text, mark) && (scheme == "always" || scheme == "first" && p.first) {
			p.text = mark + p.text
		}
		if !cut {
			return append(dst, p)
		}
		return words(dst, p)
	}, nil
}
