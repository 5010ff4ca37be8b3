"""Serves a GGUF file with llama.cpp's HTTP server, as the package xllamacpp ships it, until it is ended.

    serve-llama.py MODEL.gguf PORT SLOTS
"""

import signal
import sys

import xllamacpp

model, port, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
p = xllamacpp.CommonParams()
p.model.path = model
p.port = port
p.n_parallel = slots
p.n_ctx = 1024 * slots
p.endpoint_metrics = True
p.ui = False
p.cpuparams.n_threads = 1  # one core for the engine, the other for who measures it
p.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(p)
print("listening on", server.listening_address, flush=True)
signal.pause()
