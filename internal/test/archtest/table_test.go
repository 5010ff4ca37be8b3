package archtest

// levels is the import table: a package imports only packages of lower levels. A new package gets a
// line here before its tests pass.
var levels = []struct {
	about    string
	packages []string
}{
	{"words, files, arithmetic", []string{"call", "fleet/broker", "fleet/clock", "host/enginelog", "judge/stats", "load/arrow", "load/deal", "load/media", "nearest", "pytext", "rng", "safe/escape", "safe/infile", "safe/secret", "send/http1", "sim/des", "sim/latency"}},
	{"every figure's formula; parts of an engine; tokens; arrivals", []string{"call/recorder", "host/launch", "host/probe", "judge/metrics", "load/lengths", "load/rows", "load/schedule", "load/trace", "search/suggest", "send/protocol", "sim/catalog", "sim/kv", "sim/serve", "token/chat", "token/tokenizer", "view/chart"}},
	{"what to send and to whom; the names of figures; an engine", []string{"figure", "fleet/wire", "host/observe", "judge/verdict", "load/workload", "send/client", "sim"}},
	{"settings, results and runs in progress; sending; engines at work", []string{"fleet/link", "result", "send/driver", "settings/config", "sim/cluster", "sim/engineconf", "view/live"}},
	{"other tools' forms; comparing; a command's process; reading command lines; what a run sends", []string{"console", "fleet/leftover", "fleet/parcel", "forecast/profile", "judge/compare", "judge/explain", "load/build", "result/harvest", "result/interop", "settings/flags", "sim/wall", "trial", "view/curve", "view/table"}},
	{"one whole run; predictions; pages", []string{"bench", "forecast/predict", "load/dataset", "result/store", "search/capacity", "search/sweep", "selftest/accuracy", "selftest/alarms", "send/proxy", "settings/dialect", "sim/instance", "view/page", "view/picture", "view/report"}},
	{"who makes runs; searches; what was not measured", []string{"fleet/coordinator", "fleet/worker", "forecast/calibrate", "forecast/sizing", "search/tune", "selftest/trials", "trial/executor", "trial/series", "view", "view/listing"}},
	{"commands", []string{"cli"}},
	{"programs and house rules", []string{"cmd/spate", "test/archtest", "test/attack", "test/doctest", "test/e2e", "test/gotest", "token/tokenizer/conform", "token/chat/conformance"}},
}

// walls are packages that must not know each other, not even through others.
var walls = []struct{ pkg, never, why string }{
	{"judge/metrics", "send/client", "a figure is computed from records alone, whoever made them"},
	{"judge/metrics", "send/driver", "as above"},
	{"send/client", "judge/metrics", "the client stamps; it has no opinion on what the stamps mean"},
	{"send/client", "load/workload", "the client sends what it is given"},
	{"load/schedule", "load/workload", "when and what are decided apart"},
	{"judge/verdict", "send/client", "a run is judged by its figures"},
	{"view/report", "send/client", "a view of a finished run needs nothing that made it"},
	{"view/report", "send/driver", "as above"},
	{"result", "send/client", "old runs stay readable without the means to make new ones"},
	{"sim/serve", "send/client", "the server that tests the client shares no code with it"},
	{"sim/serve", "send/protocol", "as above"},
	{"sim/serve", "call", "as above, its clock included"},
	{"settings/flags", "send/client", "reading a command line starts nothing"},
}

// machine lists who may reach the machine, through which imports, and what for. All others compute.
var machine = []struct {
	pkg     string
	imports []string
	why     string
}{
	{"selftest/accuracy", []string{"net", "os", "os/exec", "syscall", "golang.org/x/sys/unix"}, "runs a server as a second process and a bare reader beside the client"},
	{"selftest/alarms", []string{"os", "os/exec", "syscall", "golang.org/x/sys/unix"}, "runs servers and clients as processes, and disturbs them"},
	{"bench", []string{"net", "net/http", "os", "os/exec"}, "opens the files, asks the servers and finds the programs that the settings name"},
	{"cli", []string{"net", "os"}, "names the files and programs that flags say"},
	{"console", []string{"os"}, "is the process's face"},
	{"judge/compare", []string{"os"}, "keeps the file of noise"},
	{"fleet/broker", []string{"net", "os"}, "is the message server of a fleet, and keeps its folder closed to others"},
	{"fleet/coordinator", []string{"net", "os", "os/exec", "syscall"}, "starts workers of this host, and finishes run folders; joins a host and a port, and keeps the join file and the certificate of `spate fleet serve`"},
	{"fleet/leftover", []string{"os", "syscall"}, "keeps what a worker has not delivered yet, and holds their folder"},
	{"fleet/parcel", []string{"os"}, "hands on the files that settings name"},
	{"fleet/worker", []string{"os"}, "keeps its folder, and says which process it is"},
	{"fleet/link", []string{"net", "os"}, "keeps the files that came through the fleet; asks whether an address is this host"},
	{"send/client", []string{"net", "net/http", "net/http/httptrace", "os", "syscall", "golang.org/x/sys/unix"}, "owns the sockets of the load"},
	{"cmd/spate", []string{"os", "os/signal", "syscall"}, "is the process"},
	{"settings/config", []string{"net"}, "joins a host and a port; opens nothing"},
	{"send/driver", []string{"golang.org/x/sys/unix"}, "sleeps to an absolute time on its own thread"},
	{"test/gotest", []string{"net", "net/http", "os", "os/exec", "os/signal"}, "is a program that runs go test and keeps port 8000 taken meanwhile"},
	{"safe/infile", []string{"os", "syscall"}, "opens the files that users name"},
	{"host/observe", []string{"net/http", "os", "os/exec"}, "samples the server, GPUs and the host during a run, and keeps what it saw"},
	{"forecast/profile", []string{"os"}, "goes through folders of profiles"},
	{"host/launch", []string{"net", "net/http", "os", "os/exec", "syscall", "golang.org/x/sys/unix"}, "starts servers and ends them"},
	{"load/dataset", []string{"os"}, "writes the datasets it makes"},
	{"load/media", []string{"os", "syscall"}, "opens the pictures, videos and sounds that rows of a dataset name, within the folders that are allowed"},
	{"host/probe", []string{"net", "net/http", "os", "syscall", "golang.org/x/sys/unix", "golang.org/x/sys/windows"}, "looks at host, process and server"},
	{"send/proxy", []string{"net", "os"}, "stands between clients and a server, and appends what passed to a file"},
	{"call/recorder", []string{"os"}, "appends records to a file"},
	{"view", []string{"os"}, "writes the files that commands are asked for"},
	{"view/listing", []string{"os"}, "deletes the folders of runs that are removed"},
	{"view/live", []string{"golang.org/x/term"}, "asks how wide the terminal is"},
	{"result", []string{"os"}, "keeps the run folder"},
	{"result/harvest", []string{"os"}, "goes through the files and folders results lie in"},
	{"sim/instance", []string{"net", "os"}, "is `spate sim`: joins a host and a port, and writes its process id into the log"},
	{"sim/serve", []string{"net", "net/http", "os", "syscall", "golang.org/x/sys/unix"}, "is a server"},
	{"result/store", []string{"os"}, "keeps the file of results and looks whether run folders are still there"},
	{"search/sweep", []string{"os"}, "reads what servers printed"},
	{"search/tune", []string{"os"}, "opens the files that a search names, and reads what servers printed"},
	{"trial", []string{"os", "syscall"}, "keeps the folder and the journal of a command that makes many runs"},
	{"trial/series", []string{"os"}, "keeps the log of a server it starts, and appends to the result files of other tools"},
	{"trial/executor", []string{"os"}, "keeps what a run of many would have printed"},
	{"token/tokenizer", []string{"os"}, "reads tokenizer files, where the user or the Hugging Face cache has them"},
	{"token/chat/conformance", []string{"os"}, "is a program"},
	{"token/tokenizer/conform", []string{"os", "syscall"}, "is a program"},
}

// touching are the imports that reach the machine.
var touching = []string{
	"os", "os/exec", "os/signal", "os/user", "net", "net/http", "net/http/httptest", "net/http/httptrace", "syscall",
	"golang.org/x/sys/unix", "golang.org/x/sys/windows", "golang.org/x/term",
}

// timeless packages never read a clock or wait: the same input gives the same output, at any time.
var timeless = []string{
	"load/lengths", "load/arrow", "load/rows", "fleet/clock", "fleet/wire", "load/deal", "view/chart", "judge/compare", "settings/config", "view/curve", "host/enginelog", "safe/escape", "judge/explain", "figure", "settings/flags", "result/harvest", "result/interop", "load/build", "judge/metrics", "nearest", "view/page", "view/picture", "pytext", "rng", "load/schedule", "send/http1", "search/suggest", "safe/secret", "judge/stats", "view/table", "token/tokenizer", "token/chat", "load/trace", "judge/verdict", "load/media", "load/workload",
	"sim", "sim/catalog", "sim/cluster", "sim/des", "sim/engineconf", "sim/kv", "sim/latency",
}

// clockFuncs are the ways to read a clock or wait.
var clockFuncs = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// drawing packages may import math/rand/v2; apart from rng they only hold a *rand.Rand that rng made.
var drawing = []string{"load/lengths", "load/media", "forecast/predict", "rng", "search/suggest", "sim/serve", "judge/stats", "load/workload"}

// unseeded packages draw numbers that reach neither a request nor a figure's definition.
var unseeded = map[string]string{
	"send/client": "the spacing of its lag samples, so that they do not keep step with the load",
}

// unpredictable packages may import crypto/rand.
var unpredictable = map[string]string{
	"trial":        "names of runs",
	"fleet/broker": "tokens and certificates",
	"send/proxy":   "the salt of block ids, which must not be guessed",
	"result":       "folder names that nobody else has",
	"sim/serve":    "a certificate of its own",
}

// vague names say nothing about what is inside.
var vague = []string{"base", "common", "core", "helper", "helpers", "lib", "manager", "misc", "shared", "types", "util", "utils"}

// maxLines is the longest a file may be.
const maxLines = 900

// moduleName is the path of the module.
const moduleName = "spate"
