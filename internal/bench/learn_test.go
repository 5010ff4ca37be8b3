package bench

import "testing"

func TestPublicName(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"api.example.com": true, "8.8.8.8": true, "localhost": false, "gpu-host": false, "127.0.0.1": false, "::1": false, "10.1.2.3": false,
		"192.168.0.9": false, "node.local": false, "vllm.serving.svc": false, "box.internal": false, "fe80::1": false,
	} {
		if publicName(host) != want {
			t.Errorf("%s: public %v", host, !want)
		}
	}
}
