package rows

import "testing"

func TestSplitNames(t *testing.T) {
	for part, want := range map[string]bool{"gsm8k-train.arrow": true, "gsm8k-train-00000-of-00002.arrow": true, "gsm8k-test.arrow": false, "x-train.csv": false, "train/a.arrow": true} {
		if named(part, "train") != want {
			t.Errorf("%s is of the split: %v", part, !want)
		}
	}
}
