package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestInput(t *testing.T) {
	tools, err := DecodeJSON([]byte(`[{"z":1,"a":{"y":1.0,"b":12345678901234567890}}]`))
	if err != nil {
		t.Fatal(err)
	}
	extra := NewDict()
	extra.Set("tool_call_id", "id1")
	in := Input{
		Messages: []Message{
			{Role: "user", Content: "hi"},
			{Role: "assistant"},
			{Role: "tool", NoContent: true, Extra: extra},
			{Role: "user", Content: []any{map[string]any{"type": "text", "text": "t", "n": json.Number("2")}}},
		},
		AddGenerationPrompt: true, EOS: "</s>", Tools: tools,
		Extra: map[string]any{"enable_thinking": false, "list": []string{"a"}, "n": 3, "u": uint64(1 << 63)},
	}
	for _, c := range []struct{ name, src, want string }{
		{"message keys in order", "{{ messages[2].keys() | list }}{{ messages[0] }}", "['role', 'tool_call_id']{'role': 'user', 'content': 'hi'}"},
		{"null content", "{{ messages[1].content is none }}", "True"},
		{"no content", "{{ messages[2].content is defined }}", "False"},
		{"plain maps in key order", "{{ messages[3].content }}", "[{'n': 2, 'text': 't', 'type': 'text'}]"},
		{"decoded order kept", "{{ tools | tojson }}", `[{"z": 1, "a": {"y": 1.0, "b": 12345678901234567890}}]`},
		{"empty token undefined", "{{ bos_token is defined }}{{ eos_token }}", "False</s>"},
		{"extra", "{{ enable_thinking }}{{ list }}{{ n }}{{ u }}{{ add_generation_prompt }}", "False['a']39223372036854775808True"},
		{"documents defined as null", "{{ documents is none }}", "True"},
		{"no clock", "{{ strftime_now is defined }}", "False"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := render(c.src, in)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if got, err := render("{{ tools is none }}", Input{}); got != "True" || err != nil {
		t.Errorf("tools without any: %q, %v", got, err)
	}
	if got, _ := render("{{ bos_token }}", Input{BOS: "<s>", Extra: map[string]any{"bos_token": "<x>"}}); got != "<x>" {
		t.Errorf("extra must win, got %q", got)
	}
}

func TestInputErrors(t *testing.T) {
	deep := any("x")
	for range maxValueDepth + 2 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name, want string
		in         Input
	}{
		{"content", "message 0: content: a value of type chan int", Input{Messages: []Message{{Content: make(chan int)}}}},
		{"tools", "tools: element 1: a value of type struct {}", Input{Tools: []any{1, struct{}{}}}},
		{"extra", `variable "k": nested`, Input{Extra: map[string]any{"k": deep}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := render("x", c.in)
			want := strings.Replace(c.want, "nested", errTooDeep.Error(), 1)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestDecodeJSON(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"order", `{"b":[1,2.0,-0.5e-9],"a":null}`, "{'b': [1, 2.0, -5e-10], 'a': None}"},
		{"twice", `{"a":1,"b":2,"a":3}`, "{'a': 3, 'b': 2}"},
		{"empty", `[[],{}]`, "[[], {}]"},
	} {
		v, err := DecodeJSON([]byte(c.src))
		if err != nil {
			t.Fatal(err)
		}
		got, err := render("{{ v }}", Input{Extra: map[string]any{"v": v}})
		if got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "{", `{"a"}`, "1 2", "[1,]", strings.Repeat("[", 5000)} {
		if v, err := DecodeJSON([]byte(bad)); err == nil {
			t.Errorf("%.20q decoded to %v", bad, v)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct {
		src, want string
		line      int
	}{
		{"a\n{% if x %}\n{{ x.y.z }}\n{% endif %}", `mapping has no attribute "y"`, 3},
		{"\n\n{{ 'a' | tojsn }}", `no filter named "tojsn": did you mean "tojson"?`, 3},
		{"\n{{ 'a' is strng }}", `no test named "strng": did you mean "string"?`, 2},
		{"{% fro x in y %}", `unknown tag "fro": did you mean "for"?`, 1},
		{"{{ 'a' | indent(widht=2) }}", `indent has no parameter "widht": did you mean "width"?`, 1},
		{"\n{% if x %}\n\n", "block is never closed by {% elif %} or {% else %} or {% endif %}", 2},
		{"{%- set a -%}\n\n {% endset %}\n{{ 1 +\n\n'x' }}", "cannot apply + to values of type integer and string", 4},
		{"{% macro m() %}\n{{ raise_exception('bad ' ~ 1) }}\n{% endmacro %}\n\n{{ m() }}", "bad 1", 2},
		{"\n{% for a in [1] recursive %}{% endfor %}", "recursive loops are not supported", 2},
		{"{{ 99999999999999999999 }}", "99999999999999999999 is not a 64-bit integer", 1},
		{"{{ 9223372036854775807 + 1 }}", "integer does not fit 64 bits", 1},
		{"{{ [].append(1) }}", "append of a list is not allowed: values cannot be changed in place", 1},
	} {
		_, err := render(c.src, Input{Extra: map[string]any{"x": map[string]any{"a": 1}}})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: got %v", c.src, err)
			continue
		}
		if e.Line != c.line || e.Msg != c.want {
			t.Errorf("%q\ngot  line %d: %s\nwant line %d: %s", c.src, e.Line, e.Msg, c.line, c.want)
		}
	}
}

// TestLimits feeds templates that would run, grow or nest without end.
func TestLimits(t *testing.T) {
	small := limits{steps: 1 << 20, bytes: 64 << 20, output: 1 << 20, depth: 12_000}
	nest := func(n int, open, mid, end string) string {
		return strings.Repeat(open, n) + mid + strings.Repeat(end, n)
	}
	for _, c := range []struct{ name, src string }{
		{"loops", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"},
		{"output", "{% for a in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}"},
		{"doubling", "{% set ns = namespace(s='ab') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
		{"list doubling", "{% set ns = namespace(s=[1]) %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
		{"repeat", "{{ 'abc' * 9223372036854775807 }}"},
		{"repeat list", "{{ [1] * 9223372036854775807 }}"},
		{"replace", "{{ ('a' * 10000).replace('a', 'b' * 10000) }}"},
		{"pad", "{{ 'a'.ljust(9000000000) }}"},
		{"format width", "{{ '{:999999999}'.format(1) }}"},
		{"indent", "{{ 'a\nb' | indent(99999999999) }}"},
		{"json indent", "{% set ns = namespace(s=1) %}{% for a in range(400) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s | tojson(indent=1000) }}"},
		{"deep print", "{% set ns = namespace(s=1) %}{% for a in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}"},
		{"deep equal", "{% set a = namespace(s=1) %}{% set b = namespace(s=1) %}{% for i in range(9999) %}{% set a.s = [a.s] %}{% set b.s = [b.s] %}{% endfor %}{{ a.s == b.s }}"},
		{"wide equal", "{% set a = namespace(s=1) %}{% set b = namespace(s=1) %}{% for i in range(60) %}{% set a.s = [a.s, a.s] %}{% set b.s = [b.s, b.s] %}{% endfor %}{{ a.s == b.s }}"},
		{"wide print", "{% set a = namespace(s=1) %}{% for i in range(60) %}{% set a.s = [a.s, a.s] %}{% endfor %}{{ a.s }}"},
		{"wide order", "{% set a = namespace(s=1) %}{% set b = namespace(s=1) %}{% for i in range(60) %}{% set a.s = [a.s, a.s] %}{% set b.s = [b.s, b.s] %}{% endfor %}{{ a.s < b.s }}"},
		{"recursion", "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}"},
		{"mutual recursion", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% if true %}{{ a() | trim }}{% endif %}{% endmacro %}{{ a() }}"},
		{"nested parens", "{{ " + nest(100_000, "(", "1", ")") + " }}"},
		{"nested lists", "{{ " + nest(100_000, "[", "1", "]") + " }}"},
		{"nested ifs", nest(100_000, "{% if 1 %}", "x", "{% endif %}")},
		{"nots", "{{ " + strings.Repeat("not ", 100_000) + "1 }}"},
		{"signs", "{{ " + strings.Repeat("- ", 100_000) + "1 }}"},
		{"sums", "{{ 1" + strings.Repeat("+1", 100_000) + " }}"},
		{"filters", "{{ 1" + strings.Repeat("|abs", 100_000) + " }}"},
		{"attributes", "{{ a" + strings.Repeat(".b", 100_000) + " }}"},
		{"else chain", "{{ 1" + strings.Repeat(" if 0 else 1", 50_000) + " }}"},
		{"if chain", "{{ 1" + strings.Repeat(" if 0", 50_000) + " }}"},
		{"targets", "{% set " + nest(100_000, "(", "a", ")") + " = 1 %}"},
		{"too long", strings.Repeat("x", maxSource+1)},
		{"whole range", "{{ range(-9223372036854775807, 9223372036854775807) }}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tpl, err := Parse(c.src)
			var out string
			if err == nil {
				tpl.limits = small
				out, err = tpl.Render(Input{})
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("got %d bytes, error %v", len(out), err)
			}
		})
	}
}

func TestLongButFine(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"sum", "{{ 1" + strings.Repeat("+1", 1500) + " }}", "1501"},
		{"range end", "{{ range(9223372036854775805, 9223372036854775807) | list }}", "[9223372036854775805, 9223372036854775806]"},
		{"range step", "{{ range(0, 9223372036854775807, 9223372036854775806) | list }}", "[0, 9223372036854775806]"},
		{"slice step", "{{ 'abc'[::9223372036854775807] }}{{ 'abc'[::-9223372036854775807] }}", "ac"},
		{"countdown", "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}.{% endmacro %}{{ m(100) | length }}", "101"},
	} {
		got, err := render(c.src, Input{})
		if got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestStrftime(t *testing.T) {
	at := time.Date(2024, 2, 3, 16, 4, 5, 6_000_000, time.UTC)
	for format, want := range map[string]string{
		"%d %b %Y": "03 Feb 2024", "%-d/%-m": "3/2", "%e": " 3", "%j": "034", "%I %p": "04 PM", "%f": "006000",
		"%A %a %u %w": "Saturday Sat 6 6", "%F %T": "2024-02-03 16:04:05", "100%% %": "100% %", "%q": "%q", "%Z%z|": "|",
	} {
		if got := strftime(at, format); got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
}

func TestTemplateIsShared(t *testing.T) {
	tpl, err := Parse("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ m.content }}{% endfor %}{{ ns.n }}")
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Messages: []Message{{Role: "user", Content: "a"}, {Role: "user", Content: "b"}}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := tpl.Render(in); got != "ab2" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzRender parses anything and renders what parses: it must end, within its
// limits, in text or in an error with a line of the template.
func FuzzRender(f *testing.F) {
	cases, inputs := fixtures(f)
	for _, c := range cases {
		f.Add(c.Template)
	}
	in := inputs["data"]
	for name, v := range inputs["chat"].Extra {
		in.Extra[name] = v
	}
	f.Fuzz(func(t *testing.T, src string) {
		tpl, err := Parse(src)
		out := ""
		if err == nil {
			tpl.limits = limits{steps: 1 << 16, bytes: 64 << 20, output: 1 << 16, depth: 4000}
			out, err = tpl.Render(in)
		}
		if len(out) > 1<<16 {
			t.Errorf("%d bytes of output", len(out))
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Line > 1+strings.Count(src, "\n")+strings.Count(src, "\r")) {
			t.Errorf("error without a line of the template: %v", err)
		}
	})
}

// FuzzDecodeJSON checks that what decodes prints as JSON that decodes to the
// same value.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x",null,true]}`, `"\ud83c\udf89"`, `[1e400,-0.0,1e-7]`, `{"":{"":[]}}`} {
		f.Add([]byte(s))
	}
	tpl, err := Parse("{{ v | tojson }}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeJSON(data)
		if err != nil {
			return
		}
		first, err := tpl.Render(Input{Extra: map[string]any{"v": v}})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(first, "Infinity") {
			return // JSON has no word for it; Python writes one all the same
		}
		again, err := DecodeJSON([]byte(first))
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		second, err := tpl.Render(Input{Extra: map[string]any{"v": again}})
		if err != nil || second != first {
			t.Errorf("%s became %s, %v", first, second, err)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	src := "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
	tpl, err := Parse(src)
	if err != nil {
		b.Fatal(err)
	}
	in := Input{Messages: []Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: strings.Repeat("word ", 500)}}, AddGenerationPrompt: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tpl.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}
