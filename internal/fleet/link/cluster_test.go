package link

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spate/internal/fleet/wire"
)

// TestAClusterLosesANode: three real NATS servers, of which one goes in the middle of a run. Records made before, while
// and after all arrive, once.
func TestAClusterLosesANode(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a cluster elects its leaders")
	}
	const n = 3
	var routes []*url.URL
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close() // the server takes it
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	var nodes []*server.Server
	var urls []string
	for i := range n {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(t.TempDir(), "store"),
			NoLog: true, NoSigs: true, Authorization: token, Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		nodes = append(nodes, s)
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	}
	for _, s := range nodes {
		if !s.ReadyForConnections(30 * time.Second) {
			t.Fatal("a node does not come up")
		}
		urls = append(urls, s.ClientURL())
	}
	ctx := within(t, 2*time.Minute)
	dial := func(name string) *Link {
		l, err := Dial(Options{Join: Join{URL: strings.Join(urls, ","), Token: token}, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l
	}
	c, w := dial("coordinator"), dial("worker")
	for err := c.CreateRun(ctx, "r1"); err != nil; err = c.CreateRun(ctx, "r1") { // until the cluster has a leader
		if !pause(ctx, 200*time.Millisecond) {
			t.Fatal(err)
		}
	}
	s, err := c.JS.Stream(ctx, wire.Stream("r1"))
	if err != nil || s.CachedInfo().Config.Replicas != 3 {
		t.Fatalf("kept %d times, %v", s.CachedInfo().Config.Replicas, err)
	}
	var g gathered
	in, err := c.OpenInbox(ctx, "r1", g.arrivals("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := w.NewOutbox("r1", wire.Part(0), "s", false)
	defer func() { _ = out.Close() }()
	made := 0
	for range 3 {
		for range 500 {
			if err := out.Record(record(made, "a")); err != nil {
				t.Fatal(err)
			}
			made++
		}
		if made == 500 {
			if err := out.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			leader := s.CachedInfo().Cluster.Leader
			for _, node := range nodes {
				if node.Name() == leader { // the worst one to lose
					node.Shutdown()
				}
			}
		}
	}
	if err := out.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := in.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	g.check(t, made)
}
