package client

import (
	"math"
	"testing"

	"spate/internal/call"
)

// TestCountsThatCannotBe has servers claim the largest count there is beside three chunks, at the end and
// on every chunk. The answers stay good; the claims are set aside and kept.
func TestCountsThatCannotBe(t *testing.T) {
	t.Parallel()
	claim := `"usage":{"prompt_tokens":7,"completion_tokens":2147483647,"completion_tokens_details":{"reasoning_tokens":2147483647}}`
	last := textEvent("a", "") + textEvent("b", "") + textEvent("c", "stop") + `data: {"choices":[],` + claim + "}\n\n" + doneEvent
	each := ""
	for _, finish := range []string{"null", "null", `"stop"`} {
		each += `data: {"choices":[{"index":0,"text":"x","finish_reason":` + finish + `}],` + claim + "}\n\n"
	}
	for name, body := range map[string]string{"at the end": last, "on every chunk": each + doneEvent} {
		for how, r := range answers(t, completions{}, okHead+piece(body)+endBody, true) {
			if r.Outcome != call.OK || len(r.Chunks) != 3 {
				t.Errorf("%s, %s: %s with %d chunks: %s", name, how, r.Outcome, len(r.Chunks), r.Err)
			}
			if r.Out != (call.Count{}) || r.Reason != (call.Count{}) || r.Claimed != math.MaxInt32 || r.In.N != 7 {
				t.Errorf("%s, %s: out %+v, reasoning %+v, claimed %d, in %+v", name, how, r.Out, r.Reason, r.Claimed, r.In)
			}
			for i, chunk := range r.Chunks {
				if chunk.Tokens != 0 {
					t.Errorf("%s, %s: chunk %d has %d tokens", name, how, i, chunk.Tokens)
				}
			}
		}
	}
}
