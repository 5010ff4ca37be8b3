package proxy

import (
	"strings"

	"spate/internal/send/http1"
)

// maxHead is the longest head of a message that is followed; a longer one is handed on without a look.
const maxHead = 1 << 20

// rewritten is the head of a request as the server gets it: with its own host, and its path in front.
func rewritten(h *http1.Head, host, prefix string) []byte {
	line := h.Line
	if method, target, err := h.Request(); err == nil && prefix != "" && strings.HasPrefix(target, "/") {
		line = method + " " + prefix + target + h.Line[len(method)+1+len(target):]
	}
	out := append(make([]byte, 0, 1024), line+"\r\n"...)
	for _, f := range h.Fields {
		if strings.EqualFold(f.Name, "Host") {
			f.Value = host
		}
		out = append(out, f.Name+": "+f.Value+"\r\n"...)
	}
	return append(out, "\r\n"...)
}
