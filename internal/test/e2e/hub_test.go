package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"spate/internal/call"
	"spate/internal/cli"
)

// mediaServer answers chats and recordings, and notes the kinds of what came.
func mediaServer(t *testing.T) (url string, seen func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || strings.Contains(r.URL.Path, "tokenize") {
			http.NotFound(w, r)
			return
		}
		note := ""
		if file, head, err := r.FormFile("file"); err == nil {
			data, _ := io.ReadAll(file)
			note = fmt.Sprintf("%s of %d bytes", head.Filename, len(data))
		} else {
			var body struct {
				Messages []struct {
					Content []struct {
						Type     string
						ImageURL struct{ URL string } `json:"image_url"`
						VideoURL struct{ URL string } `json:"video_url"`
					}
				}
			}
			_ = json.NewDecoder(r.Body).Decode(&body)
			for _, m := range body.Messages {
				for _, p := range m.Content {
					kind, _, _ := strings.Cut(p.ImageURL.URL+p.VideoURL.URL, ",")
					note += strings.TrimSpace(p.Type+" "+kind) + "; "
				}
			}
		}
		mu.Lock()
		all = append(all, note)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a cat\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(all)
		return all
	}
}

// TestHubMediaEndToEnd: what the Hugging Face library saved, images and recordings go through the command line.
func TestHubMediaEndToEnd(t *testing.T) {
	t.Parallel()
	saved, err := filepath.Abs("../../load/workload/testdata")
	if err != nil {
		t.Fatal(err)
	}
	at := datasetFiles(t, map[string]string{"speech.jsonl": `{"audio": {"array": [0, 0.5, 0.25, 0], "sampling_rate": 2}}` + "\n" + `{"audio": {"array": [0, 0.5], "sampling_rate": 2}}`})
	chat := []string{"--backend", "openai-chat"}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"Arrow": {append(chat, "--dataset-name", "hf", "--dataset-path", filepath.Join(saved, "hub"), "--hf-split", "test", "--num-prompts", "0", "--hf-output-len", "3"), []string{"text; ", "text; "}},
		"images": {
			append(chat, "--dataset-name", "hf", "--dataset-path", filepath.Join(saved, "pictures"), "--hf-name", "Lin-Chen/MMStar", "--num-prompts", "0"),
			[]string{"text; image_url data:image/png;base64; ", "text; image_url data:image/png;base64; "},
		},
		"recordings": {
			[]string{"--backend", "openai-audio", "--dataset-name", "hf", "--dataset-path", at("speech.jsonl"), "--hf-name", "openslr/librispeech_asr", "--num-prompts", "0", "--asr-min-audio-len-sec", "1.5"},
			[]string{"audio.wav of 52 bytes"},
		},
		"videos": {
			append(chat, "--dataset-name", "random-mm", "--num-prompts", "2", "--isl", "4", "--osl", "3", "--random-mm-bucket-config", "{(16, 16, 3): 1.0}"),
			[]string{"text; video_url data:video/x-msvideo;base64; ", "text; video_url data:video/x-msvideo;base64; "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, seen := mediaServer(t)
			e := benchCmd(t, append([]string{"--base-url", url, "--model", "m", "--no-observe"}, c.args...)...).want(cli.ExitDone)
			for _, r := range e.measured() {
				if r.Outcome != call.OK {
					t.Errorf("%s: %s", r.Outcome, r.Err)
				}
			}
			if got := seen(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if name == "recordings" && !strings.Contains(e.out, "RTFx") {
				t.Errorf("no RTFx in the block:\n%s", e.out)
			}
		})
	}
}
