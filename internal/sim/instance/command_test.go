package instance

import (
	"strings"
	"testing"
)

func TestRouterNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"", ""},
		{"prefix", ""},
		{"round-robbin", `did you mean "round-robin"`},
	} {
		_, err := router(c.name)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.name, err)
		}
	}
}
