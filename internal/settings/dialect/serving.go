package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// serving collects what the arguments of SGLang's bench_serving, or of LMDeploy's copy of it, ask for.
type serving struct {
	*Translated
	tool     Name
	given    map[string]argument
	body     map[string]any // further fields of every request
	pictures pictures
}

// pictures are those of dataset image.
type pictures struct {
	count  string
	height int
	width  int
}

// servingFlags translates a flag of these tools, where spate has another name or another form for it. What is in
// neither table is handed on as it stands.
var servingFlags = map[string]func(*serving, argument) error{
	"disable-ignore-eos": nothing, "disable-warmup": nothing, "warmup-requests": nothing, "multi": nothing, "request-rate-range": nothing, // asked for in finish
	"flush-cache-timeout":  nothing, // spate waits as long as any request
	"disable-stream":       unfollowed("without a stream there is no time to first token to measure"),
	"apply-chat-template":  unfollowed("chat endpoints apply it, and completions get the prompt as it stands"),
	"prompt-suffix":        unfollowed("prompts end as the dataset has them"),
	"sharegpt-context-len": unfollowed("prompts of ShareGPT are chosen by vLLM's bounds: 4 to 1024 tokens, at most 2048 with the answer"),
	"dataset-offset":       unfollowed("--seed gives another order"),
	"print-requests":       unfollowed("records.jsonl in the run folder has every request"),
	"plot-throughput":      unfollowed("spate report draws it from the run folder"),
	"cache-report":         unfollowed("what came from the cache is in the findings below the block"),
	"profile-activities":   unfollowed("--profile starts and stops the server's profiler as it is set up"),
	"profile-start-step":   unfollowed("--profile covers the whole run"),
	"profile-steps":        unfollowed("--profile covers the whole run"),
	"profile-num-steps":    unfollowed("--profile covers the whole run"),
	"profile-by-stage":     unfollowed("--profile covers the whole run"),
	"profile-stages":       unfollowed("--profile covers the whole run"),
	"profile-output-dir":   unfollowed("the server decides where its profile goes"),
	"profile-prefix":       unfollowed("the server decides what its profile is called"),
	"random-image-count":   unfollowed("every request has --image-count images"),
	"image-content":        unfollowed("images are noise, which nothing compresses"),
	"mooncake-workload":    unfollowed("spate downloads nothing: --dataset-path names the trace"),
	"pd-separated":         refused("it profiles prefill and decode servers separately, which spate does not"),
	"profile-prefill-url":  refused("it profiles prefill and decode servers separately, which spate does not"),
	"profile-decode-url":   refused("it profiles prefill and decode servers separately, which spate does not"),
	"fake-prefill":         refused("it makes a decode server use an invented cache, which spate does not request; spate sim can replace a prefill server"),
	"use-trace-timestamps": nothing, // spate always does
	"mooncake-num-rounds":  rounds,
	"dataset-path":         (*serving).datasetPath,
	"dataset-name":         (*serving).dataset,
	"backend":              (*serving).backend,
	"model-path":           (*serving).modelPath,
	"extra-request-body":   (*serving).extra,
	"flush-cache":          put("--reset-prefix-cache"),
	"tokenize-prompt":      put("--prompt-token-ids"),
	"lora-name": func(s *serving, a argument) error {
		s.add(append([]string{"--lora-modules"}, a.values...)...)
		return nil
	},
	"lora-request-distribution": (*serving).adapters,
	"lora-zipf-alpha":           nothing, // read with the distribution
	"output-file":               func(s *serving, a argument) error { s.Asked.File = a.text(); return nil },
	"output-details":            func(s *serving, _ argument) error { s.Asked.Details = true; return nil },
	"tag":                       func(s *serving, a argument) error { s.Asked.Tag = a.text(); return nil },
	"image-count":               func(s *serving, a argument) error { s.pictures.count = a.text(); return nil },
	"image-resolution":          (*serving).resolution,
	"image-format":              imageFormat,
	"return-logprob":            field("return_logprob", func(argument) (any, error) { return true, nil }),
	"return-routed-experts":     field("return_routed_experts", func(argument) (any, error) { return true, nil }),
	"top-logprobs-num":          field("top_logprobs_num", whole),
	"logprob-start-len":         field("logprob_start_len", whole),
	"token-ids-logprob":         field("token_ids_logprob", wholes),
}

func nothing(*serving, argument) error { return nil }

func put(words ...string) func(*serving, argument) error {
	return func(s *serving, _ argument) error { s.add(words...); return nil }
}

func unfollowed(why string) func(*serving, argument) error {
	return func(s *serving, a argument) error {
		s.Notes = append(s.Notes, fmt.Sprintf("--%s is not followed: %s", a.name, why))
		return nil
	}
}

func refused(why string) func(*serving, argument) error {
	return func(_ *serving, a argument) error { return fmt.Errorf("--%s: %s", a.name, why) }
}

// field puts a value of the flag into the body of every request.
func field(name string, value func(argument) (any, error)) func(*serving, argument) error {
	return func(s *serving, a argument) error {
		v, err := value(a)
		s.body[name] = v
		return err
	}
}

func whole(a argument) (any, error) {
	n, err := strconv.Atoi(a.text())
	if err != nil {
		return nil, fmt.Errorf("--%s: %q is not a whole number", a.name, a.text())
	}
	return n, nil
}

func wholes(a argument) (any, error) {
	list := []any{}
	for _, word := range a.values {
		n, err := whole(argument{a.name, []string{word}})
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// serving reads the arguments of SGLang's bench_serving and of LMDeploy's copy of it.
func (t *Translated) serving(n Name, args []string) error {
	s := &serving{Translated: t, tool: n, given: map[string]argument{}, body: map[string]any{}, pictures: pictures{"1", 1080, 1920}}
	list := split(args)
	for _, a := range list {
		s.given[a.name] = a
	}
	for _, a := range list {
		read, ok := servingFlags[a.name]
		if !ok {
			s.pass(a)
			continue
		}
		if err := read(s, a); err != nil {
			return err
		}
	}
	return s.finish()
}

func (s *serving) has(name string) bool { _, ok := s.given[name]; return ok }

// finish adds what the tool does without being asked.
func (s *serving) finish() error {
	if !s.has("dataset-name") {
		if err := s.dataset(argument{values: []string{"sharegpt"}}); err != nil {
			return err
		}
	}
	if s.Asked.Dataset == "image" {
		s.images()
	}
	defaults := [][2]string{{"backend", "sglang"}, {"seed", map[Name]string{LMDeploy: "1", SGLang: "42"}[s.tool]}, {"random-range-ratio", "0.0"}, {"temperature", "0"}}
	if s.tool == SGLang {
		defaults = append(defaults, [2]string{"random-input-len", "1024"}, [2]string{"random-output-len", "1024"})
	}
	if !slices.Contains(ownNumber, s.given["dataset-name"].text()) {
		defaults = append(defaults, [2]string{"num-prompts", "1000"})
	}
	for _, d := range defaults {
		if !s.has(d[0]) {
			s.add("--"+d[0], d[1])
		}
	}
	s.endOfSequence()
	if len(s.body) > 0 {
		text, err := json.Marshal(s.body)
		if err != nil {
			return fmt.Errorf("--extra-request-body: %w", err)
		}
		s.add("--extra-body", string(text))
	}
	warm := "1"
	if s.has("disable-warmup") {
		warm = "0"
	} else if s.has("warmup-requests") {
		warm = s.given["warmup-requests"].text()
	}
	s.add("--range-ratio-meaning", "v6", "--num-warmups", warm)
	s.slept(s.has, s.Asked.Dataset)
	if !s.has("multi") {
		return nil
	}
	var err error
	s.Rates, err = rateRange(s.given["request-rate-range"].text())
	return err
}

// ownNumber are datasets that send what they have unless a number is asked for.
var ownNumber = []string{"generated-shared-prefix", "mooncake", "agentic-trace"}

// endOfSequence asks for full lengths, as these tools do unless told otherwise.
func (s *serving) endOfSequence() {
	if !s.has("disable-ignore-eos") {
		s.add("--ignore-eos")
		return
	}
	if native := s.given["backend"].text(); native == "" || native == "sglang" || native == "sglang-native" {
		if _, ok := s.body["sampling_params"]; !ok && strings.HasPrefix(s.given["dataset-name"].text(), "random") {
			s.Notes = append(s.Notes, "--disable-ignore-eos is not followed for random prompts and SGLang's own protocol: sglang-oai does")
		}
		return
	}
	if _, ok := s.body["ignore_eos"]; !ok { // spate asks for full lengths of random prompts by itself
		s.body["ignore_eos"] = false
	}
}

// servingDatasets are spate's names of these tools' datasets, with what makes them alike.
var servingDatasets = map[string][]string{
	"random-ids":    {"--dataset-name", "random"},
	"agentic-trace": {"--dataset-name", "agentic"},
	"speed-bench":   {"--dataset-name", "speed_bench"},
	"openai":        {"--dataset-name", "hf", "--hf-name", "openai/requests", "--disable-shuffle"},
}

// dataset translates the dataset's name.
func (s *serving) dataset(a argument) error {
	name := a.text()
	s.Asked.Dataset = name
	switch name {
	case "sharegpt":
		if s.given["dataset-path"].text() == "" {
			s.WantsShareGPT = true
			return nil
		}
	case "random":
		s.WantsShareGPT = s.given["dataset-path"].text() == ""
	case "image":
		return nil // see images
	case "mmmu", "longbench_v2":
		return fmt.Errorf("--dataset-name %s: spate downloads nothing; get a copy and give its folder with --dataset-name hf --dataset-path FOLDER", name)
	case "speed-bench":
		if !s.has("speed-bench-output-len") {
			s.add("--speed-bench-output-len", "512")
		}
	}
	words, ok := servingDatasets[name]
	if !ok {
		words = []string{"--dataset-name", name}
	}
	s.add(words...)
	return nil
}

// datasetPath hands the file on; SGLang's random-ids reads none.
func (s *serving) datasetPath(a argument) error {
	if s.given["dataset-name"].text() != "random-ids" && a.text() != "" {
		s.pass(a)
	}
	return nil
}

// backend translates the names only these tools have.
func (s *serving) backend(a argument) error {
	name := a.text()
	switch name {
	case "gserver", "truss":
		return fmt.Errorf("--backend %s is not supported: sglang, sglang-oai, vllm, lmdeploy, trt and their variants are", name)
	case "vllm-embedding":
		s.Asked.Backend, name = name, "openai-embeddings"
	case "vllm-chat", "lmdeploy-chat":
		if s.tool == SGLang && !s.has("port") && !s.has("base-url") {
			s.add("--port", "30000") // SGLang's port for whatever it has none for
		}
	}
	s.add("--backend", name)
	return nil
}

// modelPath is where LMDeploy takes the model's name and tokenizer from.
func (s *serving) modelPath(a argument) error {
	if !s.has("model") {
		s.add("--model", a.text())
	}
	if !s.has("tokenizer") {
		s.add("--tokenizer", a.text())
	}
	return nil
}

func (s *serving) extra(a argument) error {
	var more map[string]any
	if err := json.Unmarshal([]byte(a.text()), &more); err != nil {
		return fmt.Errorf("--extra-request-body: %q is not a JSON object", a.text())
	}
	maps.Copy(s.body, more)
	return nil
}

// adapters translates how requests are spread over adapters: alike, in turn, or the i-th alpha^-i as often.
func (s *serving) adapters(a argument) error {
	switch a.text() {
	case "uniform":
	case "distinct":
		s.add("--lora-assignment", "round-robin")
	case "skewed":
		alpha := 1.5
		if z, ok := s.given["lora-zipf-alpha"]; ok {
			v, err := z.number()
			if err != nil {
				return err
			}
			alpha = v
		}
		if !(alpha > 1) {
			return fmt.Errorf("--lora-zipf-alpha %v must be above 1", alpha)
		}
		var weights []string
		for i := range s.given["lora-name"].values {
			weights = append(weights, strconv.FormatFloat(math.Pow(alpha, -float64(i)), 'g', 6, 64))
		}
		if len(weights) > 0 {
			s.add("--lora-weights", strings.Join(weights, ","))
		}
	default:
		return fmt.Errorf("--%s: %q is not uniform, distinct or skewed", a.name, a.text())
	}
	return nil
}

func rounds(s *serving, a argument) error {
	if a.text() == "1" {
		return nil
	}
	return unfollowed("a trace's rows are single requests; --dataset-name multi-turn holds conversations")(s, a)
}

func imageFormat(s *serving, a argument) error {
	if f := a.text(); f == "jpeg" || f == "jpg" {
		return nil
	}
	return unfollowed("images go as JPEG")(s, a)
}

// resolutions are the names of sizes, height first.
var resolutions = map[string][2]int{"4k": {2160, 3840}, "1080p": {1080, 1920}, "720p": {720, 1280}, "360p": {360, 640}}

func (s *serving) resolution(a argument) error {
	size, ok := resolutions[a.text()]
	if !ok {
		h, w, _ := strings.Cut(strings.ToLower(a.text()), "x")
		var err, other error
		size[0], err = strconv.Atoi(h)
		size[1], other = strconv.Atoi(w)
		if err != nil || other != nil || size[0] < 1 || size[1] < 1 {
			return fmt.Errorf("--image-resolution: %q is not 4k, 1080p, 720p, 360p or HEIGHTxWIDTH", a.text())
		}
	}
	s.pictures.height, s.pictures.width = size[0], size[1]
	return nil
}

// images is dataset image: vLLM's random-mm with one size. Its settings may stand behind its name, so it comes last.
func (s *serving) images() {
	p := s.pictures
	s.add("--dataset-name", "random-mm", "--random-mm-base-items-per-request", p.count,
		"--random-mm-bucket-config", fmt.Sprintf("{(%d, %d, 1): 1.0}", p.height, p.width))
}

// shareGPTFile is the file these tools download.
const shareGPTFile = "ShareGPT_V3_unfiltered_cleaned_split.json"

// ShareGPTPlaces are where that file may lie already: here, or where the tools put it, below the folder for
// temporary files.
func ShareGPTPlaces(temporary string) []string {
	return []string{shareGPTFile, path.Join(temporary, shareGPTFile)}
}

// ShareGPT gives the arguments their file of conversations. Without one, random prompts stand in for them, as long as
// ShareGPT's 10,000 first conversations are on average: 226 tokens in and 199 out. Random prompts are cut out of it.
func (t *Translated) ShareGPT(file string) {
	switch {
	case t.Asked.Dataset == "random" && file != "":
		t.add("--dataset-path", file)
		t.Notes = append(t.Notes, "random prompts are conversations of "+file+" cut to length, as the tool makes them")
		return
	case t.Asked.Dataset == "random":
		t.Notes = append(t.Notes, "random prompts are random tokens: the tool would cut conversations of "+shareGPTFile+" to length, which is neither here nor among "+
			"the temporary files, and spate downloads nothing (--dataset-path FILE names it)")
		return
	case file != "":
		t.add("--dataset-name", "sharegpt", "--dataset-path", file)
		return
	}
	t.Asked.Dataset = ""
	out := "lognormal(199,199)"
	if i := slices.Index(t.Args, "--sharegpt-output-len"); i >= 0 && i+1 < len(t.Args) {
		out = t.Args[i+1]
	}
	t.Args = append(without(t.Args, "--random-range-ratio", "--sharegpt-output-len"),
		"--dataset-name", "random", "--input-len", "lognormal(226,226)", "--output-len", out)
	t.Notes = append(t.Notes, "there is no "+shareGPTFile+" here or among the temporary files, and spate downloads nothing: random prompts of about its lengths are sent instead (226 tokens in, 199 out on average); "+
		"--dataset-path FILE sends the real ones")
}

// without takes flags and their value out of arguments.
func without(args []string, flags ...string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if slices.Contains(flags, args[i]) {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}
