"""Writes golden.json: arrival schedules computed with NumPy's legacy generator, in nanoseconds.

Run with a Python that has NumPy: python golden.py > golden.json
"""

import json
import sys

import numpy as np

INF = float("inf")


def rate_at(case, i):
    share = i / max(case["n"] - 1, 1)
    if case["ramp"] == "linear":
        return case["from"] + (case["to"] - case["from"]) * share
    if case["ramp"] == "exponential":
        return case["from"] * (case["to"] / case["from"]) ** share
    return case["rate"]


def gap(rate, shape):
    if rate == INF:
        return 0.0
    if shape == INF:
        return 1.0 / rate
    return np.random.gamma(shape=shape, scale=1.0 / (rate * shape))


def head(case, shape):
    """Sum the gaps, then stretch a steady schedule to n / rate."""
    times, now = [], 0.0
    for i in range(case["n"]):
        now += gap(rate_at(case, i), shape)
        times.append(now)
    if case["ramp"] == "" and times[-1] != 0:
        factor = (case["n"] / case["rate"]) / times[-1]
        times = [t * factor for t in times]
    return times


def slept(case, shape):
    """Send, then sleep a gap."""
    times, now = [], 0.0
    for i in range(case["n"]):
        times.append(now)
        now += gap(rate_at(case, i), shape)
    return times


cases = []
for n, rate, shape, seed in [(1, 2.0, 1.0, 0), (10, 2.0, 1.0, 0), (200, 7.5, 1.0, 0), (200, 7.5, 1.0, 1234),
                             (100, 3.0, 0.3, 0), (100, 3.0, 4.0, 7), (20, 3.0, "inf", 0), (50, 1000.0, 0.5, 0)]:
    cases.append({"n": n, "rate": rate, "shape": shape, "seed": seed, "ramp": "", "from": 0, "to": 0})
for ramp, n, lo, hi, shape in [("linear", 100, 1, 10, 1.0), ("exponential", 100, 1, 10, 1.0), ("linear", 30, 8, 2, 2.0),
                               ("exponential", 30, 2, 64, "inf"), ("linear", 1, 3, 9, 1.0), ("linear", 60, 5, 55, 0.7)]:
    cases.append({"n": n, "rate": 0, "shape": shape, "seed": 0, "ramp": ramp, "from": lo, "to": hi})
for case in cases:
    shape = float(case["shape"])
    np.random.seed(case["seed"])
    case["head"] = [round(t * 1e9) for t in head(case, shape)]
    np.random.seed(case["seed"])
    case["slept"] = [round(t * 1e9) for t in slept(case, shape)] if not case["ramp"] else []
    case["shape"] = str(case["shape"])
json.dump(cases, sys.stdout, separators=(",", ":"))
