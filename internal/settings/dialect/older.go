package dialect

// olderVLLM reads the arguments of benchmark_serving.py as vLLM 0.6 and 0.10 had it: the flags are today's, the
// defaults are not.
func (t *Translated) olderVLLM(n Name, args []string) {
	given := map[string]bool{}
	dataset := ""
	for _, a := range split(args) {
		given[a.name] = true
		if a.name == "dataset-name" {
			dataset = a.text()
		}
	}
	meaning := "v10"
	if n == VLLM6 {
		meaning = "v6"
		if !given["random-range-ratio"] { // which means fixed lengths there
			t.add("--random-range-ratio", "1.0")
		}
		t.slept(func(name string) bool { return given[name] }, dataset)
	}
	t.add("--range-ratio-meaning", meaning)
	if !given["dataset-name"] && given["dataset-path"] {
		t.add("--dataset-name", "sharegpt")
	}
	if !given["backend"] && !given["endpoint-type"] {
		t.add("--backend", "vllm")
	}
	if !given["temperature"] {
		t.add("--temperature", "0")
	}
	if !given["num-warmups"] { // the test run of the first prompt
		t.add("--num-warmups", "1")
	}
	if !given["ignore-eos"] && !given["extra-body"] { // random prompts ask for it today
		t.add("--extra-body", `{"ignore_eos": false}`)
	}
	t.add(args...)
}
