package capacity

import (
	"errors"
	"strings"

	"spate/internal/safe/secret"
	"spate/internal/trial"
)

// Plan is what a folder's search is; another one needs another folder.
type Plan struct {
	Args       []string `json:"args"` // as typed, without secrets; for --resume
	ID         string   `json:"id"`
	SLO        string   `json:"slo"`
	By         string   `json:"by"`
	Start      float64  `json:"start"`
	Min        float64  `json:"min"`
	Max        float64  `json:"max"`
	Tolerance  float64  `json:"tolerance"`
	Repeat     int      `json:"repeat"`
	MaxRepeat  int      `json:"max-repeat"`
	MaxProbes  int      `json:"max-probes"`
	ProbeTime  string   `json:"probe-time"`
	Cache      string   `json:"cache"`
	Predict    string   `json:"predict,omitempty"`
	BenchFlags string   `json:"flags of bench"`
	Digest     string   `json:"settings"` // what they, files and the environment amount to
}

// Discreet are arguments as a plan keeps them, without secrets.
func Discreet(args []string) []string { return secret.Args(args) }

// Lacks says that arguments a plan kept need a secret that was left out of them; nil: they need none.
func Lacks(args []string) error {
	if strings.Contains(strings.Join(args, " "), secret.Redacted) {
		return errors.New("the folder does not keep secrets: give the key by OPENAI_API_KEY instead, in a new search")
	}
	return nil
}

// planFile is where a folder keeps it.
const planFile = "capacity.json"

// Open opens the search's folder, and refuses one that holds another search. A search that goes on has the id and the
// arguments it was begun with.
func (p *Plan) Open(dir string) (*trial.Work, error) {
	earlier, err := Load(dir)
	if err != nil {
		return nil, err
	}
	if earlier != nil {
		p.ID, p.Args = earlier.ID, earlier.Args
		if trial.SameDigest(earlier.Digest, p.Digest) {
			p.Digest = earlier.Digest
		}
		if diff := trial.Differences(earlier, p); len(diff) > 0 {
			return nil, &trial.ChangedError{
				Begun: "the search in " + dir + " was begun with other settings", Changes: diff,
				Way: "name another folder, or go on with: spate capacity --resume " + dir,
			}
		}
	}
	w, err := trial.Open(dir)
	if err != nil || earlier != nil {
		return w, err
	}
	return w, w.Save(planFile, p)
}

// Load reads the plan of a folder; nil when it has none.
func Load(dir string) (*Plan, error) { return trial.Load[Plan](dir, planFile) }
