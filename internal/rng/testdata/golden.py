"""Writes golden.json: draws of CPython's random and NumPy's generators that the Go ports must repeat.

Run with a Python that has NumPy: python golden.py > golden.json
"""

import decimal
import json
import math
import platform
import random
import sys

import numpy as np

SEEDS = [0, 1, 42, 12345, 2**32 - 1, 2**32 + 5, 2**64 - 1]
RANGES = [
    (0, 1), (0, 2), (0, 10), (-5, 5), (100, 1124), (0, 50257), (0, 128000), (0, 3 * 2**30),
    (0, 2**32 - 1), (0, 2**32), (0, 2**32 + 1), (-(2**40), 2**50), (0, 3 * 2**61), (-(2**63), 2**63 - 1),
]
SHAPES = [1.0, 0.25, 0.5, 0.9, 1.5, 2.0, 5.0, 100.0]


def python_cases():
    out = []
    for seed in SEEDS:
        r = random.Random(seed)
        c = {"seed": str(seed)}
        c["random"] = [r.random() for _ in range(8)]
        c["bits"] = [[k, str(r.getrandbits(k))] for k in (1, 7, 31, 32, 33, 53, 64)]
        c["below"] = [[str(n), str(r._randbelow(n))] for n in (1, 2, 3, 10, 1000, 2**31, 2**32, 2**33 + 1, 2**63)]
        c["randrange"] = [[a, b, r.randrange(a, b)] for a, b in ((0, 10), (-7, 7), (5, 6), (-(2**40), 2**40))]
        xs = list(range(10))
        r.shuffle(xs)
        c["shuffle"] = xs
        c["choice"] = [r.choice(range(1000)) for _ in range(8)]
        c["choices"] = r.choices(range(100), k=8)
        c["weighted"] = r.choices(range(4), weights=[0.5, 0.25, 3, 0.125], k=16)
        c["sample"] = [[n, k, r.sample(range(n), k)] for n, k in ((10, 3), (21, 5), (22, 5), (277, 60), (100000, 9))]
        c["after"] = r.random()
        out.append(c)
    return out


def numpy_cases():
    out = []
    for seed in SEEDS:
        g = np.random.default_rng(seed)
        c = {"seed": str(seed), "integers": []}
        c["random"] = g.random(4).tolist()
        for low, high in RANGES:
            # Five draws leave half a word behind, which the next range must find.
            c["integers"].append([str(low), str(high), [str(v) for v in g.integers(low, high, size=5)]])
        c["scalar"] = [int(g.integers(0, 1000)) for _ in range(5)]
        c["inclusive"] = [[str(a), str(b), [str(v) for v in g.integers(a, b, size=5, endpoint=True)]]
                          for a, b in ((7, 7), (100, 200), (0, 2**32 - 1), (-(2**63), 2**63 - 1))]
        c["after_integers"] = g.random()
        xs = np.arange(12)
        g.shuffle(xs)
        c["shuffle"] = xs.tolist()
        c["permutation"] = g.permutation(9).tolist()
        c["choice"] = g.choice(50257, size=8).tolist()
        c["distinct"] = [[n, k, g.choice(n, size=k, replace=False).tolist()] for n, k in ((10, 10), (100, 7), (20000, 5))]
        tail = g.choice(10001, size=201, replace=False)
        c["distinct_tail"] = tail[:8].tolist()
        c["after"] = g.random()
        out.append(c)
    return out


def legacy_cases():
    out = []
    for seed in (0, 1, 42, 2**32 - 1):
        c = {"seed": seed, "gamma": []}
        for shape in SHAPES:
            r = np.random.RandomState(seed)
            c["gamma"].append([shape, r.gamma(shape, 1.0 / (3.0 * shape), size=64).tolist(), r.random_sample()])
        r = np.random.RandomState(seed)
        c["random"] = r.random_sample(8).tolist()
        c["exponential"] = r.exponential(0.25, size=64).tolist()
        c["normal"] = r.normal(10.0, 3.0, size=33).tolist()
        c["integers"] = [[str(a), str(b), [str(v) for v in r.randint(a, b, size=5)]] for a, b in RANGES[:12]]
        xs = np.arange(12)
        r.shuffle(xs)
        c["shuffle"] = xs.tolist()
        c["after"] = r.random_sample()
        out.append(c)
    return out


def float_cases():
    """Correctly rounded logarithms, exponentials and powers, from 60-digit arithmetic."""
    decimal.getcontext().prec = 60
    r = random.Random(7)
    dec = decimal.Decimal
    logs, exps, pows = [], [], []
    xs = [r.random() for _ in range(150)] + [2.0 ** r.uniform(-1070, 1023) for _ in range(60)]
    xs += [1 + r.uniform(-1, 1) * 2.0**-k for k in range(1, 50)] + [5e-324, sys.float_info.max, 0.5, 2.0, 1 - 2.0**-53]
    for x in xs:
        logs.append([x, float(dec(x).ln())])
    for x in [r.uniform(-1, 1) for _ in range(100)] + [r.uniform(-745, 709) for _ in range(100)] + [1e-20, -1e-300, 0.0, 1.0]:
        exps.append([x, float(dec(x).exp())])
    for _ in range(200):
        x, y = r.random() * 4, r.choice([2.0, 4.0, 1 / 0.9, 0.5, 10.0, r.uniform(-20, 20)])
        pows.append([x, y, float(dec(x) ** dec(y))])
    return {"log": logs, "exp": exps, "pow": pows}


def digest(xs):
    """Order-sensitive sum over many draws: 64-bit FNV-1a of the little-endian words."""
    h = 0xCBF29CE484222325
    for b in np.ascontiguousarray(xs).astype("<u8" if xs.dtype.kind in "iu" else "<f8").tobytes():
        h = ((h ^ b) * 0x100000001B3) & (2**64 - 1)
    return str(h)


def long_cases():
    r = random.Random(3)
    return {
        "integers": digest(np.random.default_rng(0).integers(0, 50257, size=100000)),
        "integers64": digest(np.random.default_rng(0).integers(0, 3 * 2**61, size=100000)),
        "random_sample": digest(np.random.RandomState(0).random_sample(100000)),
        "python": digest(np.array([r.random() for _ in range(100000)])),
        "exponential_sum": math.fsum(np.random.RandomState(0).exponential(1.0, 100000)),
        "gamma_sums": [[s, math.fsum(np.random.RandomState(0).gamma(s, 1 / s, 100000))] for s in SHAPES],
    }


json.dump({
    "made_with": f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}",
    "python": python_cases(), "numpy": numpy_cases(), "legacy": legacy_cases(), "float": float_cases(), "long": long_cases(),
}, sys.stdout, separators=(",", ":"))
