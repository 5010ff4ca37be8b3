"""A server that holds GPU memory and answers that it is healthy: holds-gpu.py PORT GIB.

It asks the driver for the memory itself, so that nothing but Python and the driver is needed.
"""

import ctypes
import http.server
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()


def must(code):
    if code != 0:
        sys.exit(f"CUDA error: {code}")


must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[2]) << 30)))


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data":[{"id":"m"}]}')

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
