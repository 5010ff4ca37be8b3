package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples keeps the shipped scripts readable and the document complete.
func TestExamples(t *testing.T) {
	names, err := filepath.Glob("../../../examples/sim/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("%d examples, %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sc, err := ParseScript(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(sc.Rules) < 3 || len(sc.Outages) != 1 || !sc.Outages[0].Kill {
			t.Errorf("%s: %d rules, outages %+v", name, len(sc.Rules), sc.Outages)
		}
	}
	doc, err := os.ReadFile("../../../docs/sim.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range faultKinds {
		if !strings.Contains(string(doc), "| `"+string(k)+"` |") {
			t.Errorf("docs/sim.md does not describe the fault %s", k)
		}
	}
	for path := range (&Server{}).routes() {
		if !strings.Contains(string(doc), path) {
			t.Errorf("docs/sim.md does not name %s", path)
		}
	}
}
