package suggest

// Best is the best trial of full length; -1 when none ran.
func Best(history []Trial) int {
	best := -1
	for i := range history {
		t := &history[i]
		if t.Failed || !t.full() {
			continue
		}
		if best < 0 || Better(t, &history[best]) < 0 {
			best = i
		}
	}
	return best
}
