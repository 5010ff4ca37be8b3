package proxy

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkExchange is one request and a streamed answer of 20 events over a kept connection, without and with
// the proxy: the difference is what it adds to a whole answer.
func BenchmarkExchange(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	asked := post("/v1/completions", `{"prompt":"`+strings.Repeat("word ", 400)+`","stream":true}`)
	answer := sseHead + strings.Repeat(textChunk("token"), 20) + usageChunk(400, 20) + lastChunk
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, len(asked)+64)
				for in := bufio.NewReader(c); ; {
					for left := len(asked) - len("there") + len(l.Addr().String()); left > 0; {
						n, err := in.Read(buf[:left])
						if err != nil {
							return
						}
						left -= n
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	p, err := Start(Config{Listen: "127.0.0.1:0", Upstream: "http://" + l.Addr().String(), Path: filepath.Join(b.TempDir(), "t.jsonl"), Block: 512})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for name, addr := range map[string]string{"direct": l.Addr().String(), "through": strings.TrimPrefix(p.URL(), "http://")} {
		b.Run(name, func(b *testing.B) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			own := strings.Replace(asked, "Host: there", "Host: "+l.Addr().String(), 1)
			buf := make([]byte, len(answer))
			for b.Loop() {
				if _, err := io.WriteString(c, own); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
