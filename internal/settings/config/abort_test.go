package config

import (
	"strings"
	"testing"
)

func TestParseAbort(t *testing.T) {
	for text, want := range map[string]Abort{
		"auto": {}, "off": {Off: true}, "20": {Run: 20}, "10%": {Share: 0.1}, "0.5%": {Share: 0.005}, "20,10%": {Run: 20, Share: 0.1}, "10% , 20": {Run: 20, Share: 0.1}, "100%": {Share: 1},
	} {
		got, err := ParseAbort(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseAbort(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %+v, %v", text, got, again, err)
		}
	}
	for text, says := range map[string]string{
		"": "want auto", "on": "want auto", "0": "1 or more", "-3": "1 or more", "0%": "more than 0%", "101%": "at most 100%",
		"0.5": "percent sign", "5,6": "want auto", "1%,2%": "want auto", "20,": "want auto", "NaN%": "more than 0%",
	} {
		if _, err := ParseAbort(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q in it", text, err, says)
		}
	}
}
