package enginelog

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

var (
	sglangRunning = part(`#running-req: (N)`)
	sglangQueue   = part(`#queue-req: (N)`)
	sglangUsage   = part(`(?:^|, )(?:full )?token usage: (N)`)
	sglangRate    = part(`gen throughput \(token/s\): (N)`)
	sglangRank    = regexp.MustCompile(`\b((?:DP\d+ )?TP\d+)\]`)
)

// ParseSGLang recognises SGLang's line about a prefill or decode batch. The share of its token pool in use stands for
// the KV cache.
func ParseSGLang(text string, line int) (Sample, bool) {
	if !strings.Contains(text, " batch") || !strings.Contains(text, "#running-req: ") {
		return Sample{}, false
	}
	s := Sample{Line: line}
	find := func(re *regexp.Regexp) json.Number {
		if m := re.FindStringSubmatch(text); m != nil {
			return json.Number(m[1])
		}
		return ""
	}
	s.Running, s.Waiting, s.GenerationTPS = find(sglangRunning), find(sglangQueue), find(sglangRate)
	if share, err := find(sglangUsage).Float64(); err == nil {
		s.KVUsage = json.Number(strconv.FormatFloat(share*100, 'f', 1, 64))
	}
	if s.Running == "" || s.Waiting == "" {
		return Sample{}, false
	}
	if m := engineTime.FindStringSubmatch(text); m != nil {
		s.Time = m[1]
	}
	if m := sglangRank.FindStringSubmatch(text); m != nil {
		s.Engine = m[1]
	}
	return s, true
}
