"""Holds a run of spate against what the server itself counted and timed.

    check.py RUN_FOLDER METRICS_BEFORE METRICS_AFTER

Prints one line for each comparison, with the figure of spate first; fails when tokens are not the same.
"""

import json
import pathlib
import re
import sys

folder, before, after = (pathlib.Path(a) for a in sys.argv[1:4])


def counters(path):
    """The sums of a Prometheus page by name, over all labels."""
    out = {}
    for line in path.read_text().splitlines():
        m = re.match(r"([A-Za-z_:][\w:]*)(\{.*\})? (\S+)", line)
        if m:
            out[m[1]] = out.get(m[1], 0.0) + float(m[3])
    return out


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


then, now = counters(before), counters(after)
records = [json.loads(line) for line in (folder / "records.jsonl").open()]
ok = [r for r in records if r["phase"] == "measure" and r["outcome"] == "ok"]
answered = [r for r in records if r.get("out", {}).get("n", 0) > 0]
wrong = []


def tokens(what, spate, server):
    print(f"  {what:<38}{spate:>10}{server:>10}  {'same' if spate == server else 'DIFFERENT'}")
    if spate != server:
        wrong.append(what)


def times(what, spate, server):
    print(f"  {what:<38}{spate:>10.2f}{server:>10.2f}  {spate - server:+.2f}")


def grown(*names):
    return next((now[n] - then.get(n, 0.0) for n in names if n in now), None)


print(f"{folder.name}: {len(ok)} of {len([r for r in records if r['phase'] == 'measure'])} requests answered")
print(f"  {'':<38}{'spate':>10}{'server':>10}")
asked, told = sum(r["asked"]["n"] for r in ok), sum(r["in"]["n"] for r in ok)
if folder.name.endswith(("completion-cap", "completion-rate")):
    tokens("prompt tokens: own tokenizer / usage", asked, told)
else:  # the engine puts its chat template around them
    print(f"  {'prompt tokens: own tokenizer / usage':<38}{asked:>10}{told:>10}  {(told - asked) / len(ok):+.2f} a request")
made = grown("llamacpp:tokens_predicted_total", "vllm:generation_tokens_total")
if made is not None:
    tokens("output tokens: all records / counter", sum(r["out"]["n"] for r in answered), int(made))

MS = 1e6
ttft = mean((r["first_token_ns"] - r["sent_ns"]) / MS for r in answered)  # warm-up included, as in the counters
decode = mean((r["last_token_ns"] - r["first_token_ns"]) / MS for r in answered)
timed = [r for r in answered if r.get("server", {}).get("generation_ns")]
if timed:
    times("mean ms to the first token", ttft, mean(r["server"]["first_token_ns"] / MS for r in timed))
    times("mean ms from first to last token", decode, mean(r["server"]["generation_ns"] / MS for r in timed))
for what, name, own in (
    ("mean ms to the first token", "vllm:time_to_first_token_seconds", ttft),
    ("mean ms from first to last token", "vllm:request_decode_time_seconds", decode),
):
    if grown(name + "_count"):
        times(what, own, 1000 * grown(name + "_sum") / grown(name + "_count"))
sys.exit(f"not the same: {', '.join(wrong)}" if wrong else 0)
