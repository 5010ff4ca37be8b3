#!/usr/bin/env python3
"""Runs spate and other benchmark clients against the same timetable server, and prints what each reports beside the truth.

The server (`spate sim`) writes every token at a known time and notes when it really did. Each client measures it at
several loads; server and client have cores of their own. Printed are, for every client and load, the reported mean
TTFT and p99 ITL minus the true ones, CPU per event, memory, and the share of the load that was reached.

Everything is installed into one folder (--work), nothing elsewhere. See docs/performance.md.
"""

import argparse
import json
import math
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

TOKENS, PROMPT = 100, 64
MODEL = "spate-sim"
HERE = Path(__file__).resolve().parent


# Loads: a closed loop of `streams`, or an open loop of `rate` requests per second. The gap between tokens is longer
# where one server core could not write all of them on time.
class Load:
    def __init__(self, name, requests, itl_ms, streams=None, rate=None):
        self.name, self.requests, self.itl_ms, self.streams, self.rate = name, requests, itl_ms, streams, rate

    @property
    def ideal_s(self):
        """How long the load lasts when nothing is in its way."""
        one = 0.05 + (TOKENS - 1) * self.itl_ms / 1000
        if self.rate:
            return self.requests / self.rate + one
        return one * math.ceil(self.requests / self.streams)


LOADS = [
    Load("10 in flight", 60, 10, streams=10),
    Load("100 in flight", 600, 10, streams=100),
    Load("1,000 in flight", 3000, 40, streams=1000),
    Load("2,000 in flight", 4000, 80, streams=2000),
    Load("10 requests/s", 100, 10, rate=10),
    Load("100 requests/s", 1000, 10, rate=100),
]


def run_quiet(cmd, **kw):
    return subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **kw)


class Client:
    """One client: how it is installed, its command line for a load, and where it says what it measured."""

    name = ""
    package = ""  # of the package index
    needs = ()  # further packages, where only the client itself is installed
    partly = ""  # what was left out of the installation

    def __init__(self, work):
        self.work = work
        self.home = work / re.sub(r"\W+", "-", self.name)
        self.version = "?"

    def python(self):
        return str(self.home / "bin" / "python")

    def install(self):
        if not (self.home / "bin" / "python").exists():
            run_quiet([sys.executable, "-m", "venv", str(self.home)])
        done = self.home / "installed"
        if not done.exists():
            run_quiet([self.python(), "-m", "pip", "install", "-q", self.package, *self.needs])
            done.touch()
        self.version = self.show(self.package)

    def show(self, package):
        out = subprocess.run([self.python(), "-m", "pip", "show", package], capture_output=True, text=True).stdout
        return next((l.split(": ")[1] for l in out.splitlines() if l.startswith("Version")), "?")

    def unpack(self, only=None):
        """Takes a package's files without what it depends on; `only` limits it to some of them."""
        into = self.home / "unpacked"
        wheels = self.home / "wheels"
        if not into.exists():
            run_quiet([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), self.package])
            wheel = next(wheels.glob("*.whl"))
            run_quiet(["unzip", "-q", "-o", str(wheel), *([only] if only else []), "-d", str(into)])
            (self.home / "version").write_text(wheel.name.split("-")[1])
            shutil.rmtree(wheels)
        self.version = (self.home / "version").read_text()
        return into

    def env(self):
        # No client may look for anything on a network: everything it needs is on this machine.
        return {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false", "OPENAI_API_KEY": "none", "DO_NOT_TRACK": "1", "HOME": str(self.home),
                "HF_HOME": str(self.work / "hf"), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"}

    def tokenizer(self):
        return str(self.work / "tokenizer")

    hub_tokenizer = "race/tokenizer"  # the same one, where the Hugging Face cache has it

    def command(self, url, load, out):
        raise NotImplementedError

    def read(self, out, stdout):
        """(mean TTFT in ms, p99 ITL in ms, answered requests)"""
        raise NotImplementedError


def newest(out, pattern):
    return max(out.rglob(pattern), key=lambda p: p.stat().st_mtime)


def vllm_result(path):
    d = json.loads(path.read_text().strip().splitlines()[-1])
    return d["mean_ttft_ms"], d["p99_itl_ms"], d["completed"]


def vllm_arguments(client, url, load, out):
    limit = ["--max-concurrency", str(load.streams)] if load.streams else ["--request-rate", str(load.rate)]
    return ["--base-url", url, "--model", MODEL, "--tokenizer", client.tokenizer(),
            "--dataset-name", "random", "--random-input-len", str(PROMPT), "--random-output-len", str(TOKENS),
            "--num-prompts", str(load.requests), "--ignore-eos", "--save-result", "--result-dir", str(out), *limit]


class Spate(Client):
    name = "spate"
    extra = ()

    def __init__(self, work, binary):
        super().__init__(work)
        self.binary = binary

    def install(self):
        self.home.mkdir(parents=True, exist_ok=True)
        self.version = subprocess.run([self.binary, "version"], capture_output=True, text=True).stdout.split()[1]

    def command(self, url, load, out):
        return [self.binary, "bench", "serve", *vllm_arguments(self, url, load, out), *self.extra]

    def read(self, out, stdout):
        return vllm_result(newest(out, "openai*.json"))


class SpateInBand(Spate):
    name = "spate --connect in-band"
    extra = ("--connect", "in-band")


class VllmRust(Client):
    name = "vLLM's Rust client"
    package = "vllm"
    partly = "the executable `vllm-rs` of the package alone"

    def install(self):
        self.home.mkdir(parents=True, exist_ok=True)
        self.binary = self.unpack("vllm/vllm-rs") / "vllm" / "vllm-rs"
        self.binary.chmod(0o755)

    def command(self, url, load, out):
        return [str(self.binary), "bench", "serve", *vllm_arguments(self, url, load, out)]

    def read(self, out, stdout):
        return vllm_result(newest(out, "*.json"))


class SglangPython(Client):
    name = "SGLang's Python client"
    package = "sglang"
    needs = ("aiohttp", "msgspec", "numpy", "orjson", "requests", "tqdm", "transformers", "pillow", "pybase64", "datasets", "psutil", "zmq", "pydantic")
    partly = "`sglang.benchmark` without the engine, its kernels and PyTorch"
    files = None
    shim = "shim-sglang"
    module = "sglang.benchmark.serving"

    def install(self):
        if not (self.home / "bin" / "python").exists():
            run_quiet([sys.executable, "-m", "venv", str(self.home)])
        self.unpack(self.files)
        done = self.home / "installed"
        if not done.exists():
            run_quiet([self.python(), "-m", "pip", "install", "-q", *self.needs])
            done.touch()

    def env(self):
        return {**super().env(), "PYTHONPATH": f"{self.home / 'unpacked'}:{HERE / self.shim}"}

    def command(self, url, load, out):
        limit = ["--max-concurrency", str(load.streams)] if load.streams else ["--request-rate", str(load.rate)]
        return [self.python(), "-m", self.module, "--backend", "vllm", "--base-url", url, "--model", MODEL,
                "--tokenizer", self.tokenizer(), "--dataset-name", "random-ids", "--random-input-len", str(PROMPT),
                "--random-output-len", str(TOKENS), "--random-range-ratio", "1", "--num-prompts", str(load.requests),
                "--output-file", str(out / "result.jsonl"), *limit]

    def read(self, out, stdout):
        d = json.loads((out / "result.jsonl").read_text().strip().splitlines()[-1])
        return d["mean_ttft_ms"], d["p99_itl_ms"], d["completed"]


class SglangRust(SglangPython):
    name = "SGLang's Rust client"
    module = "sglang.benchmark.rust_client"


class VllmPython(SglangPython):
    name = "vLLM's Python client"
    package = "vllm"
    needs = ("aiohttp", "numpy", "requests", "tqdm", "transformers", "pillow", "pybase64", "datasets", "regex", "huggingface_hub", "pandas", "psutil", "pyzmq", "cloudpickle", "typing_extensions")
    partly = "`vllm.benchmarks` without the engine and PyTorch; arguments are parsed by argparse, the tokenizer is loaded by transformers"
    files = "vllm/*.py"
    shim = "shim-vllm"
    run = "import argparse; from vllm.benchmarks import serve; p = argparse.ArgumentParser(); serve.add_cli_args(p); serve.main(p.parse_args())"

    def command(self, url, load, out):
        return [self.python(), "-c", self.run, *vllm_arguments(self, url, load, out)]

    def read(self, out, stdout):
        return vllm_result(newest(out, "*.json"))


class AIPerf(Client):
    name = "AIPerf"
    package = "aiperf"

    def command(self, url, load, out):
        limit = ["--concurrency", str(load.streams)] if load.streams else ["--request-rate", str(load.rate), "--request-rate-mode", "poisson"]
        return [str(self.home / "bin" / "aiperf"), "profile", "--url", url, "--model", MODEL, "--endpoint-type", "completions",
                "--streaming", "--tokenizer", self.hub_tokenizer, "--synthetic-input-tokens-mean", str(PROMPT), "--synthetic-input-tokens-stddev", "0",
                "--output-tokens-mean", str(TOKENS), "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true",
                "--request-count", str(load.requests), "--artifact-dir", str(out), "--ui", "none", *limit]

    def read(self, out, stdout):
        d = json.loads(newest(out, "profile_export_aiperf.json").read_text())
        itl = d.get("inter_chunk_latency") or d["inter_token_latency"]
        return d["time_to_first_token"]["avg"], itl["p99"], int(d["request_count"]["avg"])


class GuideLLM(Client):
    name = "GuideLLM"
    package = "guidellm"

    def command(self, url, load, out):
        profile = f"kind=concurrent,streams={load.streams}" if load.streams else f"kind=poisson,rate={load.rate}"
        return [str(self.home / "bin" / "guidellm"), "run", "--backend", f"kind=openai_http,target={url},model={MODEL},request_format=/v1/completions",
                "--profile", profile, "--constraint", f"kind=max_requests,count={load.requests}", "--tokenizer", f"kind=hf_auto,model={self.hub_tokenizer}",
                "--data", f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={TOKENS}", "--output", f"kind=json,path={out / 'result.json'}",
                "--disable-console"]

    def read(self, out, stdout):
        b = json.loads(newest(out, "*.json").read_text())["benchmarks"][0]
        m = b["metrics"]
        ttft, itl = m["time_to_first_token_ms"]["successful"], m["inter_token_latency_ms"]["successful"]
        return ttft["mean"], itl["percentiles"]["p99"], m["request_totals"]["successful"]


class GenAIPerf(Client):
    name = "GenAI-Perf"
    package = "genai-perf"

    def command(self, url, load, out):
        limit = ["--concurrency", str(load.streams)] if load.streams else ["--request-rate", str(load.rate)]
        return [str(self.home / "bin" / "genai-perf"), "profile", "-m", MODEL, "--endpoint-type", "completions", "--streaming", "-u", url,
                "--tokenizer", self.hub_tokenizer, "--synthetic-input-tokens-mean", str(PROMPT), "--synthetic-input-tokens-stddev", "0",
                "--output-tokens-mean", str(TOKENS), "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true",
                "--request-count", str(load.requests), "--artifact-dir", str(out), *limit]

    def read(self, out, stdout):
        d = json.loads(newest(out, "profile_export_genai_perf.json").read_text())
        return d["time_to_first_token"]["avg"], d["inter_token_latency"]["p99"], int(d["request_count"]["avg"])


class EvalScope(Client):
    name = "EvalScope"
    package = "evalscope[perf]"

    def show(self, package):
        return super().show("evalscope")

    def command(self, url, load, out):
        limit = ["--parallel", str(load.streams)] if load.streams else ["--parallel", str(load.requests), "--rate", str(load.rate)]
        return [str(self.home / "bin" / "evalscope"), "perf", "--url", url + "/v1/completions", "--api", "openai", "--model", MODEL,
                "--tokenizer-path", self.hub_tokenizer, "--dataset", "random", "--min-prompt-length", str(PROMPT), "--max-prompt-length", str(PROMPT),
                "--min-tokens", str(TOKENS), "--max-tokens", str(TOKENS), "--number", str(load.requests), "--stream",
                "--extra-args", '{"ignore_eos": true}', "--outputs-dir", str(out), "--no-test-connection", *limit]

    def read(self, out, stdout):
        s = json.loads(newest(out, "benchmark_summary.json").read_text())
        rows = json.loads(newest(out, "benchmark_percentile.json").read_text())
        p99 = next(r for r in rows if str(r.get("Percentiles", r.get("percentile"))).startswith("99"))
        ttft = next(v for k, v in s.items() if "TTFT" in k or "first token" in k.lower())
        itl = next(v for k, v in p99.items() if "ITL" in k)
        done = next(v for k, v in s.items() if "succe" in k.lower())
        scale = 1 if any("TTFT (ms)" in k for k in s) else 1000
        return ttft * scale, itl * (1 if any("ITL (ms)" in k for k in p99) else 1000), int(done)


class GenAIBench(Client):
    name = "genai-bench"
    package = "genai-bench"

    def command(self, url, load, out):
        if not load.streams:
            return None  # its loads are closed loops
        return [str(self.home / "bin" / "genai-bench"), "benchmark", "--api-backend", "openai", "--api-base", url, "--api-key", "none",
                "--api-model-name", MODEL, "--model-tokenizer", self.hub_tokenizer, "--task", "text-to-text",
                "--traffic-scenario", f"D({PROMPT},{TOKENS})", "--num-concurrency", str(load.streams), "--max-time-per-run", "3",
                "--max-requests-per-run", str(load.requests), "--additional-request-params", '{"ignore_eos": true}',
                "--experiment-base-dir", str(out), "--server-engine", "vLLM", "--server-gpu-type", "none", "--server-version", "none", "--server-gpu-count", "1"]

    def read(self, out, stdout):
        files = [p for p in out.rglob("*.json") if "metadata" not in p.name]
        d = json.loads(max(files, key=lambda p: p.stat().st_size).read_text())["aggregated_metrics"]
        return d["stats"]["ttft"]["mean"] * 1000, d["stats"]["tpot"]["p99"] * 1000, d["num_completed_requests"]


CLIENTS = [VllmPython, VllmRust, SglangPython, SglangRust, AIPerf, GuideLLM, GenAIPerf, EvalScope, GenAIBench]

# Clients no table has, and why.
ABSENT = {
    "inference-perf": "its package needs Python 3.12 or newer",
    "inference-benchmarker": "no registry has it",
}


# What processes cost


def tree(pid):
    """A process and its descendants."""
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        found.append(p)
        for task in Path(f"/proc/{p}/task").glob("*/children"):
            try:
                todo += [int(c) for c in task.read_text().split()]
            except OSError:
                pass
    return found


class Watch(threading.Thread):
    """Samples the memory of a process tree; CPU comes from the kernel when it has ended."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.on = pid, 0, True

    def run(self):
        while self.on:
            total = 0
            for p in tree(self.pid):
                try:
                    total += int(next(l for l in open(f"/proc/{p}/smaps_rollup") if l.startswith("Pss:")).split()[1])
                except (OSError, StopIteration):
                    pass
            self.peak = max(self.peak, total)
            time.sleep(0.25)


def pinned(cores):
    return lambda: os.sched_setaffinity(0, cores)


class Server:
    """The timetable server, on cores of its own."""

    def __init__(self, binary, load, cores, work):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.truth = work / "truth.jsonl"
        self.truth.unlink(missing_ok=True)
        self.proc = subprocess.Popen(
            [binary, "sim", "--port", str(self.port), "--ttft", "50ms", "--itl", f"{load.itl_ms}ms", "--model", MODEL, "--truth-file", str(self.truth)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pinned(cores))
        for _ in range(200):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=1).read()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the server does not answer")

    def stop(self):
        """Ends the server and returns what it really did, in order of arrival."""
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(60)
        rows = [json.loads(l) for l in self.truth.read_text().splitlines()]
        return sorted(rows, key=lambda r: r["arrived_ns"])


def percentile(values, q):
    values = sorted(values)
    at = q / 100 * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def true_figures(rows):
    ttft, gaps, events = [], [], 0
    for r in rows:
        times = [e[0] for e in r["events"] if e[2] > 0]
        events += len(r["events"]) + 1
        if times:
            ttft.append((times[0] - r["arrived_ns"]) / 1e6)
            gaps += [(b - a) / 1e6 for a, b in zip(times, times[1:])]
    return statistics.fmean(ttft), percentile(gaps, 99), events


def measure(client, load, args, work):
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    server = Server(args.spate, load, args.server_cpus, work)
    command = client.command(server.url, load, out)
    if command is None:
        server.stop()
        return None
    began = time.monotonic()
    with open(work / "client.log", "w+") as log:
        proc = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=out, env=client.env(),
                                start_new_session=True, preexec_fn=pinned(args.client_cpus))
        watch = Watch(proc.pid)
        watch.start()
        timer = threading.Timer(args.timeout, lambda: os.killpg(proc.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(proc.pid, 0)
        timer.cancel()
        watch.on = False
        log.seek(0)
        text = log.read()
    wall = time.monotonic() - began
    rows = server.stop()
    try:
        ttft, itl, done = client.read(out, text)
        measured = [r for r in rows if r["completion_tokens"] > 1][-load.requests:]
        true_ttft, true_itl, _ = true_figures(measured)
        events = true_figures(rows)[2]
        span = (max(r["events"][-1][0] for r in measured) - min(r["arrived_ns"] for r in measured)) / 1e9
    except Exception as e:  # a client that does not work is a row of the table, not the end of the race
        return {"error": f"{type(e).__name__}: {e}; exit status {os.waitstatus_to_exitcode(status)}; {text.strip()[-300:]}"}
    return {"ttft_error": ttft - true_ttft, "itl_error": itl - true_itl, "true_ttft": true_ttft, "true_itl": true_itl,
            "cpu_us": (usage.ru_utime + usage.ru_stime) / events * 1e6, "cpu_s": usage.ru_utime + usage.ru_stime,
            "mb": watch.peak / 1024, "share": min(1.0, load.ideal_s / span) * done / load.requests, "wall_s": wall}


def cell(runs, key, form="{:.2f}"):
    values = [r[key] for r in runs]
    text = form.format(statistics.median(values))
    return text if len(values) == 1 else f"{text} [{form.format(min(values))} .. {form.format(max(values))}]"


def table(results, clients):
    yield "| load | client | mean TTFT, reported - true (ms) | p99 ITL, reported - true (ms) | CPU per event (us) | peak memory (MB) | share of the load |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for load in LOADS:
        for c in clients:
            runs = [r for r in results.get(f"{load.name}/{c.name}", []) if r]
            good = [r for r in runs if "error" not in r]
            if good:
                yield (f"| {load.name} | {c.name} | {cell(good, 'ttft_error')} | {cell(good, 'itl_error')} | {cell(good, 'cpu_us', '{:.0f}')} "
                       f"| {cell(good, 'mb', '{:.0f}')} | {statistics.median(r['share'] for r in good):.1%} |")
            elif runs:
                yield f"| {load.name} | {c.name} | did not run | | | | |"


def make_tokenizer(work):
    """A small tokenizer every client can read: one token a word."""
    folder = work / "tokenizer"
    if (folder / "tokenizer.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    special = ["[UNK]", "[CLS]", "[SEP]"]
    vocab = {w: i for i, w in enumerate([*special, *(f"w{i}" for i in range(8000))])}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                         for i, t in enumerate(special)],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "bos_token": "[CLS]", "eos_token": "[SEP]", "model_max_length": 100000,
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": len(vocab), "max_position_embeddings": 100000}))
    hub = work / "hf" / "hub" / "models--race--tokenizer"
    revision = "0" * 40
    (hub / "refs").mkdir(parents=True, exist_ok=True)
    (hub / "refs" / "main").write_text(revision)
    shutil.copytree(folder, hub / "snapshots" / revision, dirs_exist_ok=True)


def cores(text):
    out = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        out |= set(range(int(low), int(high or low) + 1))
    return out


def main():
    usable = sorted(os.sched_getaffinity(0))
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--spate", required=True, help="the spate executable")
    p.add_argument("--work", type=Path, required=True, help="folder for installations and results")
    p.add_argument("--repeat", type=int, default=3, help="runs of each client at each load (default 3)")
    p.add_argument("--clients", default="", help="only clients whose name has one of these words, separated by commas")
    p.add_argument("--loads", default="", help="only loads whose name has one of these words, separated by commas")
    p.add_argument("--server-cpus", type=cores, default=set(usable[: max(1, len(usable) - 2)]) if len(usable) > 2 else {usable[0]})
    p.add_argument("--client-cpus", type=cores, default=set(usable[-2:]) if len(usable) > 2 else {usable[-1]})
    p.add_argument("--timeout", type=float, default=180, help="seconds after which a client is ended (default 180)")
    p.add_argument("--install-only", action="store_true")
    args = p.parse_args()
    args.spate = str(Path(args.spate).resolve())
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    make_tokenizer(args.work)

    pick = lambda name, words: not words or any(w.strip().lower() in name.lower() for w in words.split(","))
    clients = [c for c in [Spate(args.work, args.spate), SpateInBand(args.work, args.spate), *(c(args.work) for c in CLIENTS)] if pick(c.name, args.clients)]
    loads = [l for l in LOADS if pick(l.name, args.loads)]
    for c in list(clients):
        print(f"install {c.name}", file=sys.stderr, flush=True)
        try:
            c.install()
        except subprocess.CalledProcessError as e:
            ABSENT[c.name] = "could not be installed: " + (e.stderr or "").strip().splitlines()[-1][:200]
            clients.remove(c)
    if args.install_only:
        return
    results = {}
    for turn in range(args.repeat):
        for load in loads:
            for c in clients if turn % 2 == 0 else reversed(clients):
                r = measure(c, load, args, args.work)
                results.setdefault(f"{load.name}/{c.name}", []).append(r)
                said = "has no such load" if r is None else r.get("error") or f"TTFT {r['ttft_error']:+.2f} ms, p99 ITL {r['itl_error']:+.2f} ms, {r['cpu_us']:.0f} us"
                print(f"{turn + 1}/{args.repeat} {load.name}: {c.name}: {said}", file=sys.stderr, flush=True)
                (args.work / "race.json").write_text(json.dumps(results, indent=1))
    print("\n".join(table(results, clients)))
    print()
    for c in clients:
        print(f"- {c.name} {c.version}" + (f" ({c.partly})" if c.partly else ""))
    for name, why in ABSENT.items():
        print(f"- not raced: {name}: {why}")


if __name__ == "__main__":
    main()
