package report

import "spate/internal/result"

// judgement says whether the figures can be trusted, and why not.
func judgement(s *sheet, run *result.Run) {
	s.hang("", "spate: "+string(run.State))
}
