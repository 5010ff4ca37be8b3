# spate: everything runs from here. Only Go is needed; the tools of `make check` are installed once
# into .tools/bin, at the versions below.

GO       ?= go
TOOLS    := $(CURDIR)/.tools/bin
FUZZTIME ?= 20s
# How long fuzzing may shrink an input before it goes on: not at all, so that FUZZTIME goes to new inputs. For a shorter
# failing input: make fuzz FUZZSHRINK=60s
FUZZSHRINK ?= 0s

GOFUMPT     := $(TOOLS)/gofumpt-v0.12.0
LINT        := $(TOOLS)/golangci-lint-v2.14.0
GOVULNCHECK := $(TOOLS)/govulncheck-v1.8.0

# The race detector is a C library. Without a C compiler the tests still run, and say what is missing.
CC_FOUND := $(shell command -v $$($(GO) env CC 2>/dev/null || echo cc) 2>/dev/null)
RACE     := $(if $(CC_FOUND),-race,)

PLATFORMS := linux/arm64 darwin/arm64 windows/amd64

.DEFAULT_GOAL := help
.PHONY: help demo build test test-short check format vet lint vulns tidy arch cross bench fidelity real-engine race attack soak fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## measure an embedded server over loopback for 15 seconds; needs nothing but Go
	@echo 'building bin/spate; the first time Go fetches and compiles what it needs, which takes a minute or two'
	@$(MAKE) -s build
	@bin/spate demo

build: ## one static binary: bin/spate
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -ldflags "-s -w" -o bin/spate ./cmd/spate

test: ## every test, under the race detector where there is a C compiler
ifeq ($(RACE),)
	@echo '!!!' >&2
	@echo '!!! no C compiler: running the tests WITHOUT the race detector' >&2
	@echo '!!!' >&2
endif
	@sh scripts/test-deps.sh
	@echo 'running every test; the first lines come after a minute or more of compiling'
	@CGO_ENABLED=$(if $(RACE),1,0) GO=$(GO) $(GO) run ./internal/test/gotest $(RACE) -timeout 30m ./...

test-short: ## the quick tests, for daily work: without the race detector and what takes more than about a second each
	@echo 'running the quick tests; the first lines come after compiling, which the second time is quick'
	@CGO_ENABLED=0 GO=$(GO) $(GO) run ./internal/test/gotest -short -timeout 10m ./...

check: format vet lint vulns tidy arch cross ## formatting, vet, linters, vulnerabilities, go.mod, import table, other platforms

format: $(GOFUMPT)
	@out="$$($(GOFUMPT) -l cmd internal)" || exit 1; \
	if [ -n "$$out" ]; then echo "not formatted; run: $(GOFUMPT) -w cmd internal"; echo "$$out"; exit 1; fi
	@echo "format: ok"

vet:
	@$(GO) vet ./...
	@echo "vet: ok"

lint: $(LINT)
	@echo "lint:"
	@$(LINT) run ./...

# A finding fails. A database that cannot be reached does not: it says nothing about this code.
vulns: $(GOVULNCHECK)
	@out="$$($(GOVULNCHECK) ./... 2>&1)"; code=$$?; \
	if [ $$code -eq 0 ]; then echo "vulns: none known"; \
	elif [ $$code -eq 3 ]; then echo "$$out"; exit 1; \
	elif echo "$$out" | grep -qiE 'fetching vulnerabilities|vuln.go.dev|dial tcp|no such host|timeout|HTTP GET'; then \
		echo "vulns: NOT CHECKED, the vulnerability database cannot be reached:"; echo "$$out" | tail -1; \
	else echo "$$out"; exit 1; fi

tidy:
	@$(GO) mod tidy -diff
	@$(GO) mod verify >/dev/null
	@echo "tidy: ok"

arch:
	@$(GO) test -count=1 ./internal/test/archtest

cross:
	@for p in $(PLATFORMS); do \
		GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/spate || exit 1; \
		echo "builds for $$p"; \
	done

bench: ## the tables of docs/performance.md (about five minutes), then every benchmark
	$(GO) run ./cmd/spate calibrate-client --full
	$(GO) test -run '^$$' -bench . -benchmem $$(grep -rls '^func Benchmark' --include='*_test.go' internal | xargs -n1 dirname | sort -u | sed 's|^|./|')

fidelity: ## fit the simulator to ROWS (a rows file) and write docs/fidelity.md; minutes
	@test -n "$(ROWS)" || { echo 'make fidelity ROWS=rows.json: name the file of measured rows'; exit 2; }
	$(GO) run ./cmd/spate calibrate $(ROWS) -o internal/forecast/profile/data --report docs/fidelity.md
	$(GO) run ./cmd/spate predict --validate $(ROWS)

real-engine: ## run against llama.cpp's server, or ENGINES="llama.cpp vllm transformers"; installs them into a temporary folder
	@sh scripts/real-engine.sh $(ENGINES)

race: build ## spate beside other benchmark clients; installs them (gigabytes) into WORK (a temporary folder), REPEAT (3) runs each
	@python3 scripts/race/race.py --spate bin/spate $(if $(WORK),--work '$(WORK)') $(if $(REPEAT),--repeat $(REPEAT))

attack: ## hostile servers, damaged files, kills and full disks against spate: the long form; minutes
	@SPATE_ATTACK=long $(GO) test -count=1 -v -timeout 60m ./internal/test/attack

soak: build ## a run of SECONDS (3600) at RATE (500) requests a second: do memory and descriptors stay flat? samples in WORK
	@sh scripts/soak.sh bin/spate $(or $(SECONDS),3600) $(or $(RATE),500) '$(or $(WORK),soak)'

fuzz: ## each fuzz target for FUZZTIME (20s)
	@for d in $$(grep -rls '^func Fuzz' --include='*_test.go' cmd internal | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$d/*_test.go | cut -c6-); do \
			echo "fuzz $$d $$f"; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZSHRINK) ./$$d || exit 1; \
		done; \
	done

clean: ## remove what was built, the tools included
	rm -rf bin .tools

# install puts one tool at one version under a name that carries the version.
define install
	@mkdir -p $(TOOLS)
	@echo "installing $(1)"
	@tmp=$$(mktemp -d) && GOBIN=$$tmp GOFLAGS= CGO_ENABLED=0 $(GO) install $(1) && mv $$tmp/* $@ && rm -r $$tmp
endef

$(GOFUMPT):
	$(call install,mvdan.cc/gofumpt@v0.12.0)

$(LINT):
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0)

$(GOVULNCHECK):
	$(call install,golang.org/x/vuln/cmd/govulncheck@v1.8.0)
