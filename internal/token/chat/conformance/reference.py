"""Reference side of the chat-template conformance check.

    reference.py fixtures CASES.json
        render the cases of cases.py with jinja2, write them with their output
    reference.py compare TEMPLATES_DIR SPATE_BINARY
        render every *.jinja file over conversations.py with jinja2 and with
        the conformance command, and print a table

jinja2 is set up as transformers sets it up for chat templates.
"""

import datetime
import functools
import glob
import json
import os
import subprocess
import sys

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 3, 7, 9, 5, 2)


class Refused(TemplateError):
    """A template called raise_exception."""


class Generation(Extension):
    """{% generation %}: marks what the model writes; renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise Refused(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                          separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: NOW.strftime(fmt)
    return env


ENV = environment()


@functools.lru_cache(maxsize=1)
def compiled(template):
    return ENV.from_string(template)


def render(template, variables):
    try:
        return {"out": compiled(template).render(**variables)}
    except Refused as e:
        return {"out": "", "error": str(e), "raised": True}
    except Exception as e:  # whatever a template can provoke is a result here
        return {"out": "", "error": f"{type(e).__name__}: {e}"}


def fixtures(path):
    from cases import CASES, VARIABLES
    done = []
    for name, template, variables in CASES:
        done.append({"name": name, "template": template, "vars": variables, **render(template, VARIABLES[variables])})
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"vars": VARIABLES, "cases": done}, f, ensure_ascii=False, indent=1)
        f.write("\n")
    bad = [c["name"] for c in done if "error" in c and not c["name"].startswith("error")]
    print(f"{len(done)} cases written, errors in cases not named so: {bad}")


def compare(folder, binary):
    from conversations import CONVERSATIONS
    jobs = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as f:
            template = f.read()
        for name, variables in CONVERSATIONS.items():
            for gen in (False, True):
                v = {"tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>",
                     "additional_special_tokens": ["<a>", "<b>", "<c>", "<d>"],
                     **variables, "add_generation_prompt": gen}
                jobs.append((os.path.basename(path)[:-6], f"{name}{'+gen' if gen else ''}", template, v))
    lines = "\n".join(json.dumps({"template": t, "vars": v, "now": NOW.isoformat() + "Z"}) for _, _, t, v in jobs)
    proc = subprocess.run([binary], input=lines, capture_output=True, text=True, check=True)
    report(jobs, [json.loads(line) for line in proc.stdout.splitlines()])


def agree(ref, got):
    if "error" not in ref:
        return "error" not in got and ref["out"] == got["out"]
    if ref.get("raised"):
        return got.get("raised", False) and got["error"].endswith(ref["error"])
    return "error" in got and not got.get("raised")


def report(jobs, results):
    table, shown = {}, 0
    for (template, conversation, text, variables), got in zip(jobs, results, strict=True):
        ref = render(text, variables)
        row = table.setdefault(template, {"same": 0, "refused": 0, "failed": 0, "differ": 0})
        if not agree(ref, got):
            row["differ"] += 1
            if shown < 20:
                shown += 1
                print(f"DIFFER {template} / {conversation}\n  jinja2: {ref}\n  spate:  {got}", file=sys.stderr)
        elif ref.get("raised"):
            row["refused"] += 1
        else:
            row["failed" if "error" in ref else "same"] += 1
    print(f"{'template':58} {'same':>6} {'refused':>8} {'failed':>7} {'differ':>7}")
    for name, row in table.items():
        print(f"{name:58} {row['same']:6} {row['refused']:8} {row['failed']:7} {row['differ']:7}")
    total = {k: sum(r[k] for r in table.values()) for k in ("same", "refused", "failed", "differ")}
    print(f"{'all ' + str(len(table)) + ' templates':58} {total['same']:6} {total['refused']:8} {total['failed']:7} {total['differ']:7}")
    sys.exit(1 if total["differ"] else 0)


if __name__ == "__main__":
    if sys.argv[1] == "fixtures":
        fixtures(sys.argv[2])
    else:
        compare(sys.argv[2], sys.argv[3])
