"""Templates of our own, each about one construct that real ones use.

Every case is (name, template, name of variables); reference.py adds the output that
jinja2 gives. Cases that jinja2 refuses have names that start with "error".
"""

CHAT = {"messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi"},
                     {"role": "assistant", "content": "Hello\n"}, {"role": "user", "content": "Bye 你好"}],
        "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
TOOL = {"type": "function", "function": {"name": "f", "description": "does <x> & \"y\"", "parameters": {
    "type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}}, "a": {"type": "integer"}},
    "required": []}}}
DATA = {"n": 7, "neg": -3, "f": 2.5, "big": 1e16, "tiny": 1.5e-7, "s": "Hello World", "e": "", "none": None, "yes": True,
        "no": False, "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"z": 1, "y": [1, {"x": None}], "w": "q'\"\n"},
        "objs": [{"k": "v1", "n": 1}, {"k": "v2"}, {"k": "V1", "n": 3, "in": {"deep": 9}}], "empty": [], "ed": {},
        "huge": 123456789012345678901234567890, "tool": TOOL, "text": "  a b\tc\n\nd  ", "uni": "Straße ΑΒΓ 你好 🎉"}

VARIABLES = {"chat": CHAT, "data": DATA}
CASES = []


def case(name, template, variables="data"):
    CASES.append((name, template, variables))


def exprs(prefix, *sources):
    """One case per expression, printed between bars."""
    for i, source in enumerate(sources):
        case(f"{prefix}/{i}: {source}", "|{{ " + source + " }}|")


# Whole conversations.
case("chat/for-if", "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}[U]{{ m['content'] }}"
     "{% elif m.role == 'assistant' %}[A]{{ m.content | trim }}{{ eos_token }}{% else %}[S]{{ m.content.strip() }}{% endif %}"
     "{% endfor %}{% if add_generation_prompt %}[A]{% endif %}", "chat")
case("chat/namespace", "{% set ns = namespace(sys='', found=false) %}\n{%- for m in messages %}\n  {%- if m.role == 'system' %}"
     "{%- set ns.sys = ns.sys ~ m.content %}{%- set ns.found = true %}\n  {%- endif %}\n{%- endfor %}\n{{ ns.sys }}|{{ ns.found }}", "chat")
case("chat/slice", "{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}"
     "{% endif %}{% for m in rest[::-1] %}{{ loop.index0 }}{{ m.role }} {% endfor %}{{ sys }}", "chat")
case("chat/alternate", "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}x{% else %}o{% endif %}{% endfor %}", "chat")
case("error/raise", "line one\n{% if messages | length > 2 %}\n{{ raise_exception('too many: ' ~ messages|length) }}\n{% endif %}", "chat")
case("chat/generation", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{% set x = 1 %}{{ m.content }}"
     "{% endgeneration %}{% endif %}{% endfor %}{{ x is defined }}", "chat")
case("chat/message-equality", "{% set us = messages | selectattr('role', 'equalto', 'user') | list %}"
     "{% for m in messages %}{{ m == us[-1] }} {% endfor %}", "chat")
case("chat/date", "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %y %p %I %a %-d %e %%') }}", "chat")

# Whitespace control.
for name, src in {
    "trim-blocks": "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "lstrip-blocks": "a\n   {% if true %}\n  b\n\t{% endif %}\nc\n\n",
    "lstrip-not-variables": "a\n   {{ 'x' }}\n  b",
    "lstrip-needs-line-start": "a   {% if true %}b{% endif %}   c",
    "minus": "a  \n {%- if true -%}  \n b \n {%- endif -%} \n c",
    "minus-variable": "a \n {{- 'x' -}} \n b",
    "plus": "a\n   {%+ if true +%}\n b {%+ endif %}\nc",
    "comment": "a\n  {# note #}\nb {#- x -#} c {# multi\nline #}d{#+ y +#}\ne",
    "raw": "a {% raw %}{{ x }} {% if %}{% endraw %} b",
    "raw-trim": "a\n  {%- raw -%}\n  {{ x }}\n  {%- endraw -%}\n b",
    "raw-newline": "{% raw %}\nx\n{% endraw %}\ny",
    "crlf": "a\r\n{% if true %}\r\nb\r{% endif %}\r\nc\r\n",
    "trailing-newlines": "a\n\n\n",
    "only-newline": "\n",
    "empty": "",
    "braces": "a { b } c {x} {{ '{{' }} {{ '%}' }} {{ \"}}\" }}",
    "tag-after-tag": "{% set a = 1 %}\n   {% set b = 2 %}\n   {{ a }}\n",
    "unicode-space": "a\u00a0\u2003{%- if true -%}\u3000\x1cb{% endif %}",
    "colon": "{% if true: %}x{% else: %}y{% endif %}",
    "newline-in-tag": "{{ [1,\n 2]\n }}\n{% set x\n = 3 %}\n{{ x }}",
}.items():
    case("space/" + name, src)

exprs("literal", "1", "0x1F", "1_000", "1.5", "1e3", "2.5e-3", "'a' 'b' \"c\"", "'tab\\tnl\\nq\\'\\x41\\u00e9\\101\\q\\\\'",
      "[1, 'a', None, true]", "(1,)", "()", "(1, 2)", "1, 2", "{'a': 1, 'b': {'c': []}}", "{}", "True", "false", "none",
      "'\\U0001F389'", "{1: 'a', true: 'b', none: 'c'}", "[1, 2,]", "{'a': {'b': 1}}")
exprs("arith", "n + 2", "n - 2 - 1", "n * 2", "n / 2", "n // 2", "neg // 2", "neg % 2", "7 % -3", "n ** 2", "2 ** -1", "2 ** 3 ** 2",
      "-n", "+n", "- n + 1", "f * 2", "f // 1", "-f % 1", "true + 1", "1 + 2 * 3", "(1 + 2) * 3", "n / 7", "10 / 4", "big", "tiny",
      "huge", "1.0", "100000.0 * 100000", "'a' * 3", "[1] * 2", "[1] + [2]", "(1,) + (2,)", "'a' + 'b' ~ 1 ~ none ~ 2.0", "1 ~ 2 + 'x'",
      "0.1 + 0.2", "1e300 * 1e10", "'%s-%05.1f-%d' % ('x', 2.25, 7)", "'%s' % 5", "-2 ** 2")
exprs("compare", "1 < 2 < 3", "1 < 3 < 2", "1 == 1.0", "true == 1", "'a' == 'a'", "'a' < 'b'", "[1, 2] < [1, 3]", "l == [3, 1, 2]", "d == d",
      "1 != 2", "none == none", "missing == missing2", "missing == none", "'1' == 1", "'ell' in s", "3 in l", "9 not in l", "'z' in d", "'q' in d",
      "not 1 in l", "1 in l and 2 in l", "'x' in missing", "n >= 7", "n <= 6", "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "(1,) == [1]", "2 > 1 != 3",
      "'a' in 'abc' == true", "'' in ''")
exprs("logic", "yes and no", "'' or 'x'", "none or 0", "n and s", "not e", "not not s", "yes or missing.x", "'a' if yes else 'b'", "'a' if no", "'a' if no else 'b' if no else 'c'",
      "(missing or 'd') ~ '!'", "not missing", "not empty", "1 if f else 2")
exprs("access", "d.z", "d['z']", "d.y[1].x", "d.y[1]['x'] is none", "l[0]", "l[-1]", "l.0", "l[9]", "s[0]", "s[-1]",
      "uni[4]", "missing", "d.missing", "d['missing'] is defined", "none.x is defined", "s.nope is defined", "d.items is defined",
      "tool.function.parameters.properties.b['items']['type']", "(1, 2)[1]", "n.x is defined", "s['x'] is undefined", "ed.get('x') is none")
exprs("slice", "l[1:]", "l[:1]", "l[:-1]", "l[::-1]", "l[::2]", "l[-2:]", "l[5:]", "l[2:0:-1]", "l[none:2]", "s[1:4]", "s[::-1]", "s[:-1]", "s[-3:-1]", "uni[-2:]", "s[100:]", "(1, 2, 3)[1:]",
      "l[-100:100]", "l[100:-100:-2]", "s[0:n:3]")
exprs("string-method", "text.strip()", "text.lstrip()", "text.rstrip()", "s.strip('Hd')", "s.lstrip('leH')", "s.split()", "s.split('o')", "s.split('o', 1)", "text.split()", "s.rsplit('o', 1)",
      "'a  b c'.split(' ')", "s.split(none, 1)", "s.startswith('He')", "s.startswith(('x', 'He'))", "s.endswith('d')", "s.upper()", "s.lower()", "'it\\'s a-b'.title()", "s.capitalize()",
      "s.replace('l', 'L')", "s.replace('l', 'L', 1)", "s.replace('', '-')", "'-'.join(['a', 'b'])", "s.find('o')", "s.rfind('o')", "s.find('zz')", "s.count('l')", "s.index('W')", "uni.upper()", "uni.lower()",
      "'12'.isdigit()", "'a1'.isalpha()", "' '.isspace()", "''.isdigit()", "s.swapcase()", "'a,b'.partition(',')", "'a,b,c'.rpartition(',')", "'x'.partition(',')", "'a\\nb\\r\\nc\\n'.splitlines()",
      "'{} {}'.format(1, 'a')", "'{1}{0}{x}'.format(1, 2, x='y')", "'<{:>5}|{:<4}|{:^5}|{:03d}|{:.2f}>'.format('a', 'b', 'c', 7, 2.345)", "'{{}}'.format()", "'{i:d}'.format(i=3)", "'{0.z}{0[w]}'.format(d)",
      "'{!r}'.format('a')", "'7'.zfill(3)", "'-7'.zfill(4)", "'a'.ljust(3) ~ '|'", "'a'.rjust(3, '.')", "'abc'.removeprefix('a').removesuffix('c')", "'ABC'.isupper()", "'a'.islower()", "' a b '.rsplit(none, 1)", "' a  b '.split(none, 1)", "' a b  c '.split(none, 2)", "' a b '.split(none, 0)")
exprs("dict-method", "d.get('z')", "d.get('q')", "d.get('q', 5)", "d.keys() | list", "d.values() | list", "d.items() | list", "ed.items() | list", "d.get(none)")
exprs("list-method", "l.index(1)", "l.count(3)", "(1, 1).count(1)")
exprs("print", "l", "d", "objs", "none", "yes", "f", "(1, 'a')", "[none, true, 1.0, 'it\\'s', \"q\\\"\", \"both'\\\"\", 'nl\\n\\t\\\\', 'é\\x00\\u200b']", "[[], {}, ()]", "missing", "[missing is defined]",
      "uni", "[uni]", "[big, tiny, 1e22, 123456789.125, 1e-5, 0.0001]")
exprs("filter-string", "text | trim", "s | trim('Hd')", "s | upper", "s | lower", "'it\\'s a-b (c d)' | title", "s | capitalize", "s | replace('l', 'L')", "s | replace('l', 'L', 1)", "n | string ~ 'x'", "none | string",
      "n | upper", "missing | trim", "none | trim", "[1] | string | length", "'a\\nb\\n\\nc\\n' | indent", "'a\\nb' | indent(2)", "'a\\nb\\n\\nc' | indent(2, true)", "'a\\n\\nb' | indent(2, first=true, blank=true)",
      "'a\\nb' | indent('> ')", "'%s=%d' | format('a', 3)", "'<b>' | e", "'<b>' | safe", "('<b>' | safe) ~ '<i>'", "('<b>' | safe) + '<i>&\"'", "'<i>' + ('<b>' | safe)", "('<' | safe | upper) + '>'", "'x' | string + 'y'")
exprs("filter-number", "'5' | int", "'x' | int", "'x' | int(9)", "'2.9' | int", "f | int", "'0x1f' | int(base=16)", "'1.5' | float", "'x' | float", "none | int", "neg | abs", "f | round", "2.567 | round(2)", "2.5 | round", "3.5 | round",
      "2.51 | round(1, 'floor')", "2.41 | round(1, 'ceil')", "1234.5 | round(-2)", "n | round", "' 12 ' | int", "true | int", "'1_0' | int")
exprs("filter-seq", "l | length", "s | length", "uni | length", "d | length", "missing | length", "l | count", "l | first", "l | last", "empty | first", "s | first", "s | last", "l | join", "l | join(', ')", "objs | join(', ', attribute='k')",
      "s | list", "d | list", "l | sort", "words | sort", "words | sort(case_sensitive=true)", "l | sort(reverse=true)", "objs | sort(attribute='k', reverse=true) | map(attribute='k') | list", "l | reverse | list", "s | reverse", "l | min",
      "l | max", "words | max", "empty | max", "l | sum", "objs | selectattr('n', 'defined') | sum(attribute='n')", "words | unique | list", "['a', 'A', 'b'] | unique | join", "d | dictsort", "{'b': 1, 'A': 2} | dictsort",
      "{'b': 1, 'a': 2} | dictsort(by='value', reverse=true)", "d | items | list", "missing | items | list", "objs | map(attribute='k') | list", "objs | map(attribute='n', default=0) | list", "[{'a': {'b': 1}}] | map(attribute='a.b') | list",
      "words | map('upper') | join", "words | map('replace', 'a', 'X') | list", "objs | selectattr('k', 'equalto', 'v2') | list", "objs | rejectattr('k', 'equalto', 'v2') | list | length", "objs | selectattr('n') | list | length",
      "objs | selectattr('n', 'undefined') | map(attribute='k') | first", "objs | selectattr('k', 'in', ['v1', 'v2']) | list | length", "l | select('odd') | list", "l | reject('gt', 1) | list", "l | select | list", "none | selectattr('x') | list", "none | map('upper') | list",
      "l | select('==', 2) | list", "objs | selectattr('k', '!=', 'v1') | list | length", "[[1, 'x'], [0, 'y']] | map(attribute=1) | list", "(1, 2) | list", "l | sort | last", "[] | last is defined", "'' | first is defined")
exprs("filter-default", "missing | default('x')", "missing | default", "none | default('x')", "none | default('x', true)", "e | d('y', boolean=true)", "0 | default(5)", "d.q | default('z')")
exprs("tojson", "d | tojson", "tool | tojson", "tool | tojson(indent=2)", "tool | tojson(indent=4)", "uni | tojson", "uni | tojson(ensure_ascii=true)", "d | tojson(sort_keys=true)", "d | tojson(separators=(',', ':'))", "empty | tojson(indent=2)", "ed | tojson(indent=2)",
      "none | tojson", "[1.0, 1e16, 1e-7, 0.1, true, none] | tojson", "huge | tojson", "'\\x00\\x1f\\x7f\\\"\\\\/<>&\\'' | tojson", "{1: 2, none: 3, true: 4, 1.5: 5} | tojson", "(1, 'a') | tojson", "[[], {}] | tojson(indent=1)", "d | tojson(indent='--')",
      "'a' | tojson | tojson", "'🎉\\x7f' | tojson(ensure_ascii=true)", "l | tojson(indent=0)")
exprs("test", "missing is defined", "n is defined", "missing is undefined", "none is none", "n is not none", "s is string", "n is string", "d is mapping", "l is mapping", "l is iterable", "s is iterable", "n is iterable", "d is iterable", "missing is iterable",
      "l is sequence", "s is sequence", "d is sequence", "n is sequence", "n is number", "f is number", "yes is number", "n is integer", "yes is integer", "f is float", "yes is boolean", "n is boolean", "yes is true", "1 is true", "no is false", "n is odd", "n is even",
      "n is divisibleby 7", "n is divisibleby(2)", "n is eq 7", "n is equalto(8)", "n is gt 3", "n is ne 3", "3 is in l", "3 is in(l)", "'abc' is lower", "'ABC' is upper", "range is callable", "s is callable", "n is sameas 7", "'trim' is filter", "'nope' is filter", "'odd' is test",
      "not missing is defined", "n is defined and s is string", "(l | selectattr('x')) is iterable", "(s is string) is true", "missing is none", "missing is string", "missing is mapping", "d.get is callable", "n is not odd",
      "missing is sequence", "'<' | e is escaped")
exprs("call", "range(3) | list", "range(1, 4) | list", "range(5, 0, -2) | list", "range(0) | list", "dict(a=1, b=2)", "dict({'a': 1}, b=2)", "dict([('x', 1)])", "dict(**{'a': 1})", "namespace(a=1).a", "range(*[1, 3]) | list", "namespace({'a': 4}).a")

# Statements.
case("for/else", "{% for x in empty %}x{% else %}none{% endfor %}{% for x in l %}{{ x }}{% else %}none{% endfor %}")
case("for/loop", "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
     "{{ loop.previtem }}{{ loop.previtem is defined }}{{ loop.nextitem }};{% endfor %}")
case("for/filter", "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}{% if not loop.last %},{% endif %}{% else %}no{% endfor %}{% for x in l if x > 9 %}{% else %}no{% endfor %}")
case("for/unpack", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}")
case("for/items-filter", "{% for k, v in d | items %}{{ k }}{{ loop.last }};{% endfor %}{% for k, v in d | dictsort %}{{ k }}{% endfor %}")
case("for/nested", "{% for x in l %}{% for y in words %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{{ loop.depth }} {% endfor %}")
case("for/scope", "{% set x = 'out' %}{% for i in l %}{% set x = x ~ i %}{{ x }} {% endfor %}{{ x }}|{{ i is defined }}")
case("for/break", "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}")
case("for/cycle", "{% for i in range(4) %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }}{% endfor %}")
case("for/string", "{% for c in uni %}{{ c }}.{% endfor %}")
case("for/missing", "{% for c in missing %}x{% else %}empty{% endfor %}")
case("for/tuple", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}")
case("for/generator-once", "{% set g = objs | map(attribute='k') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% else %}spent{% endfor %}")
case("for/nested-break", "{% for a in l %}{% for b in l %}{% if b == 1 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}-{% endfor %}")
case("if/chain", "{% if no %}a{% elif missing %}b{% elif l %}c{% else %}d{% endif %}{% if no %}a{% else %}b{% endif %}{% if no %}x{% endif %}")
case("if/scope", "{% if yes %}{% set v = 1 %}{% endif %}{{ v }}{% if no %}{% set w = 1 %}{% endif %}{{ w is defined }}")
case("set/forms", "{% set a = 1 %}{% set b, c = 2, 3 %}{% set t = 4, 5 %}{% set (g, h) = [6, 7] %}{{ a }}{{ b }}{{ c }}{{ t }}{{ g }}{{ h }}")
case("set/block", "{% set x %}  a {{ n }}\n{% endset %}[{{ x }}]{% set y | upper | trim %} abc {% endset %}[{{ y }}]")
case("set/block-scope", "{% set x %}{% set inner = 1 %}a{% endset %}{{ inner is defined }}{{ x }}")
case("set/namespace", "{% set ns = namespace(a=1, l=[]) %}{% for i in l %}{% set ns.a = ns.a + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.a }}{{ ns.l }}{{ ns.q is defined }}{{ ns['a'] }}")
case("set/namespace-block", "{% set ns = namespace() %}{% set ns.x %}b{% endset %}{{ ns.x }}")
case("set/conditional", "{% set v = 'a' if no else 'b' %}{{ v }}{% set w = missing | default([]) %}{{ w }}")
case("macro/plain", "{% macro m(a, b=2, c='x') %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=1, a=2) }}{{ m() }}")
case("macro/scope", "{% set g = 1 %}{% macro m() %}{{ g }}{{ late }}{% set g = 5 %}{% endmacro %}{% set late = 2 %}{{ m() }}{{ g }}")
case("macro/recursive", "{% macro tree(x) %}{% if x is mapping %}{% for k, v in x.items() %}({{ k }} {{ tree(v) }}){% endfor %}{% elif x is iterable and x is not string %}"
     "[{% for v in x %}{{ tree(v) }},{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ tree(tool) }}")
case("macro/varargs", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}")
case("macro/default-refers", "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}")
case("macro/call-block", "{% macro m(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call m('b') %}in {{ n }}{% endcall %}"
     "{% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each(l) %}[{{ x }}]{% endcall %}")
case("macro/result-is-string", "{% macro m() %} a {% endmacro %}{{ m() | trim | upper }}{{ m() is string }}{{ m() ~ 'b' }}")
case("macro/in-loop", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}")
case("filter-block", "{% filter upper | trim %} a {{ s }} {% endfilter %}")
case("with", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with %}x{% endwith %}")
case("print-statement", "{% print(n) %}")
case("deep-nesting", "{% for a in l %}{% if a %}{% for b in l %}{% if b == a %}{% set z = a * b %}{{ z }}{% else %}{{ '.' }}{% endif %}{% endfor %}{% endif %}{% endfor %}")
case("guarded-unknown-filter", "{% if no %}{{ s | nosuch }}{% endif %}ok")

for i, source in enumerate((
        "missing.x", "missing['x']", "missing + 'a'", "missing()", "missing < 1", "-missing", "s + 1", "s - s", "none + s", "l + s", "n in n", "1 in s", "n | length", "none | length", "missing | tojson",
        "s | nosuch", "s is nosuch", "nosuch(1)", "l.append(1)", "l.pop(0)", "d.update({})", "d.pop('z')", "1 / 0", "1 % 0", "1 // 0", "d.y[1].x[1:]", "missing[1:]", "l['a':]", "s * s", "1 < 'a'", "{[1]: 2}",
        "s.split('')", "s.join([1])", "range(1000000)", "'%d' % 'a'", "'%s %s' % 1", "'{}'.format()", "s | items | list", "(l | map('upper')) | length", "objs | map(attribute='k') | last", "l | map('nosuch') | list",
        "raise_exception('no')", "s | tojson(bad=1)", "n.x.y", "d.q.r", "none.a.b", "l | select('nosuch') | list", "namespace | tojson", "words | sort(attribute='x.y')", "[1, 'a'] | sort", "s.index('zz')", "n()", "s.replace('a')",
        "l | join(attribute='a.b')", "l[::0]", "dict([1])", "loop.index")):
    case(f"error/expression/{i}: {source}", "\n{{ " + source + " }}")
for i, source in enumerate((
        "{% if %}x{% endif %}", "{% if x %}", "{% for x %}{% endfor %}", "{% for x in y %}", "{{ x", "{{ }}", "{% endif %}", "{{ 'a }}", "{# a", "{% raw %}x", "{% nosuch %}", "{{ a b }}", "{{ (1 }}", "{{ 1) }}", "{{ [1} }}", "{% set %}",
        "{% set 1 = 2 %}", "{% set true = 2 %}", "{{ a..b }}", "{{ a | }}", "{{ a is }}", "{{ a ? b }}", "{{ f(a=1, 2) }}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ x is defined is true }}", "{% break %}",
        "{% else %}", "{% set x.y = 1 %}{{ x }}", "{% set a, b = 1 %}", "{% set a, b = [1] %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% call 1 %}{% endcall %}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ f(**1) }}", "{% filter nosuch %}{% endfilter %}",
        "{{ 'a' 1 }}", "{% for x in 5 %}{% endfor %}", "{% set x = %}", "{{ {1} }}", "{% do x %}", "{{ x! }}", "{% if x }}y{% endif %}")):
    case(f"error/template/{i}: {source}", source)
