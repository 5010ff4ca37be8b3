package doctest

// how a command is run.
type how int

const (
	whole     how = iota // as it stands, after the edits
	server               // until it answers, then on in the background to the end of its document, then interrupted
	parsed               // only its flags are read: --help stands before the words that cannot run here
	elsewhere            // not here: another test does, or nothing here can
)

// way says how commands that match are run. The first one that matches decides.
type way struct {
	match string
	how   how
	codes []int // exit codes that are fine beside 0
	why   string
}

var ways = []way{
	{`^make (demo|build|test|test-short|check|bench|fuzz)|^go run \./cmd/spate demo`, elsewhere, nil, "builds or tests the whole tree; TestDemo of internal/test/e2e runs the demo"},
	{`^make real-engine`, elsewhere, nil, "installs engines of gigabytes; run by hand, docs/real-engines.md has what came of it"},
	{`^make race|^python3 scripts/race/`, elsewhere, nil, "installs other clients, gigabytes of them; run by hand on idle cores"},
	{`^go test .*-bench`, elsewhere, nil, "a benchmark of the source tree, not a command of the program"},
	{`^spate calibrate-client --full`, parsed, nil, "takes five minutes; make bench runs it"},
	{`^spate launch .*(docker|ssh|kubectl)`, parsed, nil, "needs another machine, Docker or Kubernetes"},
	{`^(for|done|scp)\b`, elsewhere, nil, "needs ten hosts"},
	{`^spate fleet serve .*--advertise`, parsed, nil, "names a host that nobody has; the broker without it is started"},
	{`^spate (sim|record|launch|worker|fleet serve) `, server, nil, "a server: it runs until it is interrupted"},
	{`^spate calibrate spate-runs/`, whole, []int{1}, "1 says that every run was left out: on a busy machine they are INVALID"},
	{`--slo|--strict|--max-regression|chat-slo|chat-and-batch`, whole, []int{3}, "3 says that an objective is not met or a run INVALID, which a busy machine decides"},
	{`^spate explain-diff`, whole, []int{3}, "as above"},
}

// edit changes what stands in a command.
type edit struct {
	match, in string // in: only commands that match this, too
	with      string // SERVER is the test's server, OWNPORT its port, FREEPORT a free one, SERVED the server started last
	why       string
}

var edits = []edit{
	{`https?://(gpu-host|gpu1|gpu-7|gpu|proxy|one|two|localhost|127\.0\.0\.1):(8000|9400)`, `^spate (bench|sweep|capacity|record)`, "SERVER", "a simulated server stands for yours"},
	{`https://api\.example\.com`, "", "SERVER", "as above"},
	{`--port 30000`, `^spate bench`, "--port OWNPORT", "as above"},
	{`\blocalhost:8000`, `^curl`, "SERVED", "the server that the lines before started"},
	{`\s*#.*$`, `^spate`, "", "what a shell leaves out; the next edits add to the end"},
	{`$`, `^spate sim`, " --port FREEPORT", "port 8000 may be taken"},
	{`--listen :9000`, "", "--listen 127.0.0.1:FREEPORT", "as above"},
	{`--listen 0\.0\.0\.0:4222`, "", "--listen 127.0.0.1:FREEPORT", "as above"},
	{`http://server:8000`, `--fleet`, "SERVER", "a simulated server stands for yours"},
	{`--workers \d+`, `--fleet`, "--workers 1", "one worker joined, not ten hosts"},
	{`--duration 5m`, `--fleet`, "--duration 1s", "seconds instead of minutes"},
	{`-o trace\.jsonl`, `^spate record`, "-o recorded.jsonl", "nobody sends anything through it here; trace.jsonl is there for the lines below"},
	{`--tokenizer Qwen/Qwen3-8B`, "", "--tokenizer tokenizer.json", "a model's tokenizer is not on every machine"},
	{`^bin/spate`, "", "spate", "where make build puts it"},

	{`--num-prompts (\d{2,})\b`, `^spate (bench|sweep)`, "--num-prompts 20", "seconds instead of minutes"},
	{`--num_requests \d+`, "", "--num_requests 20", "as above"},
	{`--request-rate [\d,]+`, `^spate bench`, "--request-rate 200", "as above"},
	{`--request-rate [\d,]+`, `^spate sweep`, "--request-rate 100,200", "as above"},
	{`--duration 60s --warmup-duration 10s`, "", "--duration 1s --warmup-duration 200ms", "as above"},
	{`--repeat [345]`, "", "--repeat 2", "as above"},
	{`exponential\(5\)`, "", "exponential(0.05)", "users who think for less long"},
	{`$`, `^spate capacity`, " --predict=Qwen3-8B@H100-SXM", "a search takes minutes; TestCapacityOfAnEmbeddedServer measures one"},
}

// settings are flags added to commands, most of them because the file they name asks for minutes.
var settings = []edit{
	{`examples/(chat-slo|tenants/chat-and-batch)\.yaml --base-url`, "", " --num-prompts 20 --request-rate 200", "seconds instead of a minute"},
	{`examples/tenants/chat-and-batch\.yaml --sim`, "", " --num-prompts 20", "as above"},
	{`bench --config examples/closed-loop\.yaml`, "", " --duration 1s --warmup-duration 200ms", "as above"},
	{`examples/conversations\.yaml`, "", " --num-prompts 8 --think-time 'exponential(0.05)'", "as above"},
	{`examples/stages\.yaml`, "", " --stages 1s@20", "as above"},
	{`sweep examples/suites/closed-loop\.yaml`, "", " --num-prompts 4 --cooldown 0s", "as above"},
	{`examples/suites/qps-servers\.yaml`, "", " --num-prompts 4 --request-rate 200 --cooldown 0s", "as above"},
	{`examples/suites/prompts-by-length\.yaml( --sim)?\s*(#|$)`, "", " --num-prompts 2 --random-output-len 4", "as above"},
	{`examples/suites/doubling-ladder\.yaml --(base-url|sim)`, "", " --dry-run", "as above: prompts of up to 128,000 tokens; TestShippedSuitesRun measures it with short ones"},
	{`examples/suites/four-workloads\.yaml`, "", " --dry-run", "starts servers in Docker, or sends 13,000 prompts; TestShippedSuitesRun measures it with few"},
	{`tune examples/tune/(reference|vllm)\.yaml\s*(#|$)`, "", " --dry-run", "as above: a search with real servers takes an hour; that of small-sim.yaml is made"},
	{`tune examples/tune/small-sim\.yaml`, "", " --trials 2", "seconds instead of a minute"},
	{`^spate compare (before|spate-runs/|label:|old|--baseline|--learn-noise)`, "", " --force", "compare refuses INVALID runs, and on a busy machine some are"},
	{`--backend ollama`, "", " --dry-run", "the simulated server does not speak Ollama's protocol; TestEveryBackend has one that does"},
	{`^spate calibrate-client\s*(#|$)`, "", " --help", "takes half a minute; script calibrate.txtar runs a short one"},
}

// standIns are programs that commands start and that are not on every machine. spate sim takes the flags of vllm serve.
var standIns = map[string]string{
	"vllm": "#!/bin/sh\nshift\nexec spate sim --gpu H100-SXM --time-scale 20 \"$@\"\n",
}
