package escape

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// attack is what a server may call its model.
const attack = "m\x1b]0;owned\x07\x1b[2J\u009b31m\u202eexe.\u2066x\r\x00\x7f"

func harmless(t *testing.T, what, s string) {
	t.Helper()
	if i := strings.IndexFunc(s, hostile); i >= 0 {
		t.Errorf("%s lets %q through", what, s[i:])
	}
}

func TestTerminal(t *testing.T) {
	for name, got := range map[string]string{"Terminal": Terminal(attack), "Line": Line(attack + "\nnext"), "Markdown": Markdown(attack), "XML": XML(attack)} {
		harmless(t, name, got)
	}
	if got := Terminal("a\x1b[31m\tb\nc\r\nd"); got != "a\\u001b[31m\tb\nc\nd" {
		t.Errorf("%q", got)
	}
	if got := Line("a\nb\tc"); got != "a b c" {
		t.Errorf("%q", got)
	}
	plain := "Qwen/Qwen3-8B µs 日本語 é 👩‍💻\n"
	if got := Terminal(plain); got != plain {
		t.Errorf("%q became %q", plain, got)
	}
	raw, err := json.Marshal("\u202ex\x7f")
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(Terminal(string(raw))), &back); err != nil || back != "\u202ex\x7f" {
		t.Errorf("JSON came back as %q, %v", back, err)
	}
}

func TestMarkdown(t *testing.T) {
	got := Markdown("a|b\n## x <img src=x onerror=y> ![p](http://h/p.png) `c` &lt;")
	if want := "a\\|b ## x &lt;img src=x onerror=y&gt; !\\[p\\](http://h/p.png) \\`c\\` &amp;lt;"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Sentence("**bold** <script>\n![x](y)"); got != `**bold** &lt;script> !\[x](y)` {
		t.Error(got)
	}
	if got := Code("a`b\nc"); got != "`a'b c`" {
		t.Error(got)
	}
}

func TestCSV(t *testing.T) {
	row := []string{"=cmd|'/c calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\tx", "-1.5", "+3", "-1e-3", "'=x", "it's", "-", "a=b", "", "-inf"}
	want := []string{"'=cmd|'/c calc'!A0", "'+1+2", "'-2+3", "'@SUM(A1)", "'\tx", "-1.5", "+3", "-1e-3", "''=x", "it's", "'-", "a=b", "", "-inf"}
	var b bytes.Buffer
	c := NewCSV(&b)
	if err := c.Write(row); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(&b).Read()
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v\ngot  %q\nwant %q", err, got, want)
	}
	for i := range got {
		if Plain(got[i]) != row[i] {
			t.Errorf("%q came back as %q", row[i], Plain(got[i]))
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add(attack, 3)
	f.Add("=1+1", 1)
	f.Fuzz(func(t *testing.T, s string, cut int) {
		harmless(t, "Terminal", Terminal(s))
		harmless(t, "Markdown", Markdown(s))
		if Plain(Cell(s)) != s {
			t.Errorf("cell %q came back as %q", s, Plain(Cell(s)))
		}
		if strings.ContainsAny(Markdown(s), "\n<>") {
			t.Errorf("%q as Markdown: %q", s, Markdown(s))
		}
		if !utf8.ValidString(s) || strings.Contains(s, "\r") || len(s) == 0 {
			return
		}
		var b bytes.Buffer
		w := NewWriter(&b)
		at := max(0, cut) % (len(s) + 1)
		for _, part := range []string{s[:at], s[at:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != Terminal(s) {
			t.Errorf("cut at %d: %q, want %q", at, b.String(), Terminal(s))
		}
	})
}

func TestHTMLFillsInNoMarkup(t *testing.T) {
	const evil = "<b a='1' b=\"2\">&amp;\x00%s"
	got := HTML(`<p title="%s">%s %d %v %s</p>`, evil, evil, 3, 0.5, Raw("<i>"))
	const safe = "&lt;b a=&#39;1&#39; b=&#34;2&#34;&gt;&amp;amp;\ufffd%s"
	if want := `<p title="` + safe + `">` + safe + ` 3 0.5 <i></p>`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	type name string // whatever has a text may have markup in it
	if got := HTML("%s", name("<")); got != "&lt;" {
		t.Errorf("a named type became %q", got)
	}
}
