"""Writes what Python's json.dumps makes of floats and strings; pytext_test.go compares.

Run in this folder: python3 python.py
"""
import json
import random
import struct

random.seed(20)
floats = [0.0, -0.0, 1.0, -1.0, 10.0, 0.1, 1e-4, 9.999e-5, 1e-5, 1e15, 1e16, 123456789012345678.0,
          9999999999999998.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e22, 1e21, 1e100,
          float("inf"), float("-inf"), float("nan"), 1 / 3, 2 / 3, 100 / 7, 0.30000000000000004]
for _ in range(200):
    floats.append(struct.unpack("<d", random.getrandbits(64).to_bytes(8, "little"))[0])
for _ in range(200):
    floats.append(random.uniform(0, 10 ** random.randint(-8, 18)))
for _ in range(100):
    floats.append(float(random.randint(0, 10 ** random.randint(1, 20))))
with open("floats.txt", "w") as f:
    for x in floats:
        f.write(struct.pack(">d", x).hex() + " " + json.dumps(x) + " " + repr(x) + "\n")

strings = ["", "plain", "\"quoted\" \\ / slash", "\b\f\n\r\t\x00\x1f\x7f\x80", "café Ünïcödé", "漢字かな", "😀👩‍👩‍👧‍👦 𝔘",
           "\u2028\u2029\ufeff\uffff", "<&>"]
for _ in range(60):
    n = random.randint(1, 12)
    s = ""
    while len(s) < n:
        c = random.choice([random.randint(0, 0x7f), random.randint(0x80, 0xffff), random.randint(0x10000, 0x10ffff)])
        if not 0xd800 <= c <= 0xdfff:
            s += chr(c)
    strings.append(s)
with open("strings.txt", "w") as f:
    for s in strings:
        f.write(s.encode().hex() + " " + json.dumps(s) + "\n")
