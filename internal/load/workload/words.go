package workload

import (
	"math/rand/v2"
	"slices"
	"strings"

	"spate/internal/rng"
)

// Words that the common vocabularies hold as single tokens with a leading space, and longer ones
// they split in two. Of ten words three carry a second token (a long word, a comma or a full stop),
// which makes perWord tokens to a word. Encoded by eleven tokenizers (Llama 2 and 3, Qwen 2.5 and 3,
// Gemma 2 and 3, Mistral Nemo, DeepSeek V3, GPT-2, 4 and 4o), 20,000 tokens asked for came out
// within 2 % of that.
var (
	shortWords = strings.Fields(`
		time year people way day man thing woman life child world school state family student group
		country problem hand part place case week company system program question work government
		number night point home water room mother area money story fact month lot right study book
		eye job word business issue side kind head house service friend father power hour game line
		end member law car city community name president team minute idea kid body information back
		parent face others level office door health person art war history party result change
		morning reason research girl guy moment air teacher force education foot boy age policy
		music market sense nation plan college interest death experience effect use class control
		care field development role effort rate heart drug show leader light voice wife police mind
		price report decision son view relationship town road arm difference value building action
		season society tax director position player record paper space ground form event official
		matter center couple site project activity star table need court oil situation cost industry
		figure street image phone data picture practice piece land product doctor wall patient
		worker news test movie north love support technology step baby computer type attention film
		tree source hair window evidence truth south fire future wind stone river summer winter`)
	longWords = strings.Fields(`
		bookshop teapot streetlight driftwood softwood fireside lakeside crosswalk rowboat lifeboat
		hilltop windowsill watermill treehouse henhouse birdhouse fairground barnyard raincoat
		rainstorm snowstorm sandstorm craftsman woodsman horseman watchman clockwork brickwork
		ironwork cornfield minefield wheatfield swordfish jellyfish wallflower wildflower moonbeam
		sunbeam crossbeam bluebird blackbird hummingbird songbird firefly horsefly keyhole`)
)

// Candidates are words to try on a server's tokenizer, for Config.Words.
func Candidates() []string { return slices.Clone(shortWords) }

// MakesText reports whether the dataset makes its prompts' text, so that Words decide on their lengths.
func (c *Config) MakesText() bool {
	switch c.Dataset {
	case "burstgpt", "timed_trace", "mooncake":
		return true
	case "sonnet":
		return false
	}
	return c.Path == ""
}

// appendWords appends text of n tokens made of words that are one token each; without such words, text
// of about n tokens: sentences without meaning. It depends on draws only.
func appendWords(text []byte, words []string, draws *rand.Rand, n int) []byte {
	if len(words) == 0 {
		return appendProse(text, draws, n)
	}
	for i := range n {
		if i > 0 {
			text = append(text, ' ')
		}
		text = append(text, words[draws.IntN(len(words))]...)
	}
	return text
}

// appendProse appends text of about n tokens (none for 0) in any of the common vocabularies.
func appendProse(text []byte, draws *rand.Rand, n int) []byte {
	for made := 0; made < n; {
		if made > 0 {
			text = append(text, ' ')
		}
		mark, long := byte(0), false
		if made+2 <= n { // a second token fits
			switch draws.IntN(10) {
			case 0:
				mark = '.'
			case 1:
				mark = ','
			case 2:
				long = true
			}
		}
		if long {
			text = append(text, longWords[draws.IntN(len(longWords))]...)
			made++
		} else {
			text = append(text, shortWords[draws.IntN(len(shortWords))]...)
		}
		made++
		if mark != 0 {
			text = append(text, mark)
			made++
		}
	}
	return text
}

// Words is plain text of about n tokens.
func Words(n int, seed uint64) string { return string(appendProse(nil, rng.New(seed, "words"), n)) }
