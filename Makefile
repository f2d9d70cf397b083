# Needs only Go, make, git and the Go module proxy.
#
#   make run     replay incidents to the daemon and a real Alertmanager, and see alerts fire
#   make test    everything that CI runs
#   make check   linters and known vulnerabilities
#   make help    every target
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

GO      ?= go
BIN     ?= bin/crowsnest
FUZZTIME ?= 10s
FUZZRUNS ?= 300x
TOOL    := $(GO) tool -modfile=tools/go.mod

VERSION ?= $(or $(shell git describe --tags --match 'v*' --dirty 2>/dev/null | sed 's/^v//'),0.1.0-dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BRANCH  ?= $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null || echo unknown)
VERSION_PKG := github.com/prometheus/common/version
ldflags = -s -w -X $(VERSION_PKG).Version=$(VERSION) -X $(VERSION_PKG).Revision=$(REVISION) -X $(VERSION_PKG).Branch=$(1)

# All Go files, including those in folders named testdata, which are not built.
GOFILES = $(wildcard $(shell git ls-files -co --exclude-standard '*.go'))

.PHONY: build run test check bench bench-baseline bench-peers bench-hyperscan bench-hits bench-load bench-scale bench-pair bench-start chaos e2e e2e-servers fuzz clean fmt packs compiled schemas docs monitoring screenshot chart
.PHONY: help
.PHONY: image module release release-check release-notes release-snapshot release-tools
.PHONY: test-beside test-programs test-build test-format test-workflows test-go test-fuzz check-vet check-format check-static check-lint check-vulns

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# What takes long says how far it is.
PROGRESS := $(CURDIR)/cli/internal/demo/build.sh

build: ## build the static binary; the same commit, VERSION and BRANCH give the same bytes in every folder
	@CGO_ENABLED=0 $(PROGRESS) crowsnest 785 $(GO) build -trimpath -buildvcs=false -ldflags '$(call ldflags,$(BRANCH))' -o $(BIN) ./cmd/crowsnest

DEMO_BIN := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/crowsnest/bin

# CONFIG=my.yml make run   runs with your configuration, on your logs
# ARGS=--until-done        ends when every expected alert has arrived
ifdef CONFIG
run: build ## replay incidents to the daemon and a real Alertmanager; CONFIG=my.yml runs it with your configuration
	exec $(BIN) run --config.file=$(CONFIG) $(ARGS)
else
run: build $(if $(findstring --alertmanager,$(ARGS)),,$(DEMO_BIN)/alertmanager)
	@exec $(BIN) demo $(ARGS)
endif

# Later module archives lack the pages, and `go install` cannot build them.
$(DEMO_BIN)/alertmanager:
	@echo "building Alertmanager into $(DEMO_BIN) (once, a few minutes)"
	@cd / && GOBIN=$(DEMO_BIN) CGO_ENABLED=0 $(PROGRESS) Alertmanager 695 $(GO) install github.com/prometheus/alertmanager/cmd/alertmanager@v0.31.1

test: ## run what CI runs
	@MAKE='$(MAKE)' test/parts.sh 9 test-programs test-build test-format test-workflows test-go test-fuzz packs

# Tests are compiled like the released program: both share the build cache, and so does every clone.
test-build test-go test-fuzz test-beside: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
test-build test-go test-fuzz test-beside: export CGO_ENABLED := 0

# Only what takes a few minutes on a new machine; `make e2e` needs more.
test-programs:
	GO=$(GO) test/servers/build/build.sh alertmanager amtool promtool helm kustomize podsecurity axe chromium

test-build:
	@$(PROGRESS) 'all packages' 930 $(GO) build ./...
	$(GO) vet ./...

test-format:
	@out="$$(gofmt -l $(GOFILES))"; if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi

test-workflows: # without shellcheck and pyflakes: the same result on every machine
	$(GO) tool -modfile=tools/test/go.mod actionlint -shellcheck= -pyflakes=

# The race detector makes tests five to ten times as slow and observes only goroutines of
# one process. The tests of the commands and below test/ drive other processes, which wait
# most of the time: they run first, three at a time. The packages of SERIAL start no
# goroutines (test/race_test.go): of their tests only those named Concurrent need it. The
# scans of lab/inputs do so in package replay, which is not among them. Files with the
# build constraint !race have tests of all shipped rules, in packages that need it.
# test-build has vetted all of it. Without symbols (-s), linking takes half the time.
# gotestsum runs go test and lists what was skipped, and why.
PROCESSES := ^\./(test(/|$$)|cli$$)
SERIAL := ^\./(agent/wire|episodes|internal/(blocks|codec|httpconfig|lazyre|literals|metric|pause|quota|strictyaml|text|times|wholelines|yamltext)|lab/(export|importer|inputs|internal|sourcecheck)|matcher|redact|rules|sources/internal/(content|gunzip|jsonwalk|logline|logname|podspec|position|rangeread)|sources/journal/internal|unknown|web/runbook)(/|$$)|^\./daemon/(component|config|monitor|state/plainfile)$$
GOTEST := $(GO) tool -modfile=tools/test/go.mod gotestsum --format pkgname --format-hide-empty-pkg -- -vet=off -ldflags=-s -timeout 10m
test-go:
	@all="$$($(GO) list -f '{{.Dir}}' ./... | sed "s|^$$PWD|.|")"; \
	  say() { echo "-- $$1 of 4: tests of $$2 packages, $$3"; }; \
	  say 1 "$$(grep -cE '$(PROCESSES)|$(SERIAL)' <<<"$$all")" 'without the race detector'; \
	  $(GOTEST) -p 3 ./test/chaos $$(grep -E '$(PROCESSES)' <<<"$$all" | grep -vx ./test/chaos) $$(grep -E '$(SERIAL)' <<<"$$all"); \
	  raced="$$(grep -vE '$(PROCESSES)|$(SERIAL)' <<<"$$all")"; \
	  say 2 "$$(wc -l <<<"$$raced")" 'with the race detector'; \
	  CGO_ENABLED=1 $(GOTEST) -race $$raced; \
	  concurrent="$$(git grep -l '^func Test.*Concurrent' -- '*_test.go' | sed 's|^|./|' | xargs -n1 dirname | sort -u | grep -E '$(SERIAL)')"; \
	  say 3 "$$(wc -l <<<"$$concurrent")" 'only those named Concurrent, with the race detector'; \
	  CGO_ENABLED=1 $(GOTEST) -race -run Concurrent $$concurrent; \
	  slow="$$(git grep -l '^//go:build !race' -- '*_test.go' | sed 's|^|./|' | grep -vE '$(PROCESSES)|$(SERIAL)')"; \
	  say 4 "$$(wc -w <<<"$$slow")" 'only those of files without the race detector'; \
	  $(GOTEST) -run "^($$(sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' $$slow | paste -sd'|'))\$$" $$(dirname $$slow | sort -u)

# Whole files, because a test and the path may be in different functions.
BESIDE := /shared/|"shared"|\(corpus\b
test-beside: # the tests that also read recorded logs and packs beside the checkout
	@files="$$(git grep -lE '$(BESIDE)' -- '*_test.go')"; \
	  names="$$(sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' $$files | sort -u | paste -sd'|')"; \
	  $(GO) test -vet=off -ldflags=-s -count=1 -run "^($$names)\$$" $$(dirname $$files | sort -u | sed 's|^|./|')

packs: build ## check and test the shipped rule packs and the packs that pin the language
	$(BIN) check rules --shipped --strict rules/packs
	$(BIN) test rules --mutate rules/packs
	@if ls testdata/language/*.yaml >/dev/null 2>&1; then $(BIN) test rules testdata/language; fi

check: check-vet check-format check-static check-lint check-vulns ## run linters and look for known vulnerabilities

check-vet:
	$(GO) vet ./...

check-format:
	@out="$$($(TOOL) gofumpt -l $(GOFILES))"; if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi

check-static:
	$(TOOL) staticcheck ./...

check-lint:
	$(TOOL) golangci-lint run ./...

# 3 means findings; anything else means that its database cannot be reached.
check-vulns:
	@$(TOOL) govulncheck ./... || { rc=$$?; if [ $$rc -eq 3 ]; then exit 3; fi; \
	  echo "govulncheck: its database cannot be reached; known vulnerabilities were NOT checked" >&2; }

fmt: ## format all Go files
	$(TOOL) gofumpt -w $(GOFILES)

# `go build` alone cannot run it, so its result is committed and a test compares it.
compiled: ## write rules/packs.bin, the shipped packs in the form that the program loads without parsing them
	UPDATE_SNAPSHOTS=1 $(GO) test -run '^TestCompiledPacks$$' ./rules

docs: compiled ## write the generated documents: the compiled packs, runbook pages, the reference of the configuration, outputs in the tutorial
	$(MAKE) build
	rm -rf docs/rules
	$(BIN) rules docs --out docs/rules
	UPDATE_SNAPSHOTS=1 $(GO) test -count=1 -run '^(TestDocuments|TestConfigurationPage)$$' ./cli ./daemon/config

monitoring: ## write the PrometheusRule made of the alerts of Prometheus, and the chart's copies
	@cd deploy/monitoring/rules && { printf '%s\n' '# Generated by `make monitoring`.' 'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata: {name: crowsnest}' 'spec:'; \
	  sed 's/^\(.\)/  \1/' crowsnest.yaml; } > prometheus-rule.yaml
	$(MAKE) chart

screenshot: ## take the pictures of the pages in docs/img; needs Chromium and axe-core (make e2e-servers)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	  CROWSNEST_SCREENSHOTS="$$dir" CROWSNEST_SERVERS=required $(GO) test -tags e2e -count=1 -timeout 30m -run '^TestPages$$/^(alerts|episode|history|rule|sources)$$' ./test/browser; \
	  cd docs/img && for f in *.png; do cp "$$dir/$$f" "$$f"; done

chart: ## write the files of the chart that are made from others: copies, the schema of its values, README.md
	UPDATE_SNAPSHOTS=1 $(GO) test -count=1 -run '^TestChart(Files|Readme)$$' ./test/deploy

schemas: build ## write the JSON Schemas that editors and the chart use
	$(BIN) schema rules > rules/packs/schema.json
	$(BIN) schema config > deploy/config.schema.json
	$(BIN) schema case > docs/case.schema.json
	$(MAKE) chart

# Measures each stage on the logs and rules of test/traffic. BENCHPKGS=./... runs
# every benchmark; BENCHTIME and BENCHCOUNT make it longer and more precise.
# Figures of another processor model are shown but not compared: there, run
# `make bench-baseline` at the older commit first.
BENCH      ?= .
BENCHPKGS  ?= ./test/bench ./sources/internal/tail ./episodes
BENCHTIME  ?= 100ms
BENCHCOUNT ?= 6
BASELINE   := testdata/bench/baseline.txt
# Round by round, so that a disturbance of the machine hits all alike.
run_bench   = for round in $$(seq $(BENCHCOUNT)); do \
  $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count 1 -timeout 60m $(BENCHPKGS); done

bench: ## measure each stage and compare with the last release
	@mkdir -p bin
	@$(run_bench) | tee bin/bench.txt
	@$(TOOL) benchstat $(BASELINE) bin/bench.txt

bench-baseline: ## save today's figures as the baseline
	@mkdir -p bin
	@$(run_bench) | tee bin/bench.txt
	@{ echo "# crowsnest $(VERSION), commit $(REVISION)"; cat bin/bench.txt; } > $(BASELINE)

# PEERS='-size 200MB -rounds 5' passes flags; see go run ./test/bench/peers -h. CRES=FOLDER also compares the terms
# of published rules (CREs).
CRES ?=
bench-peers: build ## compare whole processes with Hyperscan, mtail, SEC, ripgrep and wc
	@test/bench/peers/install.sh
	$(GO) run ./test/bench/peers -crowsnest $(BIN) $(if $(CRES),-terms $(CRES)) $(PEERS)

bench-hyperscan: ## compare only with Hyperscan: 10, 100 and 1000 rules, and published ones; a minute
	@$(MAKE) --no-print-directory bench-peers PEERS='-peers hyperscan -only-sets $(PEERS)'

# Compares with an older build: first what both print, byte by byte, then their CPU.
# HITS='-size 250MB -rounds 9 -dir /tmp/hits LOG ...' passes flags; see go run ./test/bench/hits -h
bench-hits: build ## compare with an older build what happens after a line matched: make bench-hits BASE=/path/to/crowsnest
	$(GO) run ./test/bench/hits -base '$(BASE)' -new $(BIN) $(HITS)

# LOAD='-files 200 -mb 10 -for 30s' passes flags; see go run ./test/load -h
LOAD ?= -log cri:1GB
bench-load: build ## measure the daemon: CPU, memory, and latency with -probe
	$(GO) run ./test/load -binary $(BIN) $(LOAD)

# BASE=/path/to/older/binary compares with that one, in alternation.
bench-start: build ## measure the CPU time of a start with the shipped packs, and the memory of an agent; BASE=FILE compares
	$(GO) run ./test/start -binary $(BIN) $(if $(BASE),-base $(BASE)) $(START)

bench-scale: build ## measure aggregator and agent per unit of work, with up to 5,000 simulated nodes; three minutes
	$(GO) run ./test/scale -binary $(BIN)

# BEFORE=BINARY also compares one aggregator without a standby with an older program.
bench-pair: ## measure what a standby costs, with 1,000 open alerts; four minutes
	CROWSNEST_PAIR_COSTS=1 CROWSNEST_PAIR_BEFORE=$(BEFORE) $(GO) test -count=1 -timeout 30m -run Costs -v ./test/pair

e2e-servers: ## build the real servers of the end-to-end tests once, into ~/.cache/crowsnest/bin
	GO=$(GO) test/servers/build/build.sh

# Runs the tests of all files with the build tag e2e, package by package, because
# they start servers and machines are small. E2E=./sinks/... limits it.
E2E ?= .
e2e: build e2e-servers $(if $(filter . ./... ./test/... %test/release,$(E2E)),release-tools) ## run every test with real servers
	@rc=0; for dir in $$(grep -rl --include='*_test.go' '^//go:build .*e2e' $(E2E:/...=) | xargs -rn1 dirname | sort -u); do \
	  names=$$(grep -l '^//go:build .*e2e' $$dir/*_test.go | xargs grep -hoE '^func Test[A-Za-z0-9_]+\(t ' | sed -E 's/^func ([A-Za-z0-9_]+).*/\1/' | paste -sd'|'); \
	  CROWSNEST_SERVERS=required $(GO) test -tags e2e -count=1 -timeout 30m -run "^($$names)\$$" ./$$dir || rc=1; \
	done; exit $$rc

# The programs that make releases, in a module of their own. The first build takes a
# few minutes and 2 GB of modules and cache.
RELEASE_TOOLS := $(CURDIR)/bin/tools
release-tools:
	cd tools/release && GOBIN=$(RELEASE_TOOLS) CGO_ENABLED=0 $(GO) install -trimpath tool

# For goreleaser and ko. A release belongs to no branch.
release release-check release-snapshot image: export PATH := $(RELEASE_TOOLS):$(PATH)
release release-check release-snapshot image: export VERSION := $(VERSION)
release release-check release-snapshot image: export LDFLAGS = $(call ldflags,release)
release release-check release-snapshot image: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
release release-check release-snapshot image: export COMMIT_DATE := $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)

# The pull request to the index of krew is made by hand: RELEASING.md.
krew = mkdir -p dist/krew && deploy/krew/manifest.sh $(VERSION) dist/checksums.txt > dist/krew/crowsnest.yaml

release-check: release-tools
	goreleaser check --quiet

release-snapshot: release-check ## build everything that a release contains into dist, unsigned; VERSION=1.2.3
	timeout 30m goreleaser release --snapshot --clean --skip=sign
	$(krew)

release-notes: # the section of VERSION in CHANGELOG.md
	@awk -v want='$(VERSION)' '/^## / {on = $$2 == want; next} on {print; found = 1} END {exit !found}' CHANGELOG.md \
	  || { echo "CHANGELOG.md has no section '## $(VERSION)'" >&2; exit 1; }

# Only .github/workflows/release.yml calls it, for a tag.
release: release-check ## publish a release; only the workflow calls it, for a tag
	@grep -q '^module github.com/' go.mod || { echo "the repository has no owner: run make module PATH=github.com/owner/crowsnest" >&2; exit 1; }
	$(MAKE) -s release-notes > bin/release-notes.md
	timeout 30m goreleaser release --clean --release-notes bin/release-notes.md
	$(krew)

# The image for both platforms. IMAGE=registry.example.org/crowsnest pushes it; without
# IMAGE it becomes an OCI layout in bin/image/layout. BASE=... replaces the base image.
image: release-tools ## build the image without Docker; IMAGE=NAME pushes it
	@rm -rf bin/image && mkdir -p bin/image/sbom
	$(if $(BASE),KO_DEFAULTBASEIMAGE=$(BASE)) \
	  KO_DOCKER_REPO=$(or $(IMAGE),registry.example.org/crowsnest) ko build --bare --tags $(VERSION) --image-user 65532:65532 \
	  --image-label org.opencontainers.image.title=crowsnest,org.opencontainers.image.version=$(VERSION),org.opencontainers.image.revision=$(REVISION) \
	  --image-label org.opencontainers.image.source=https://github.com/OWNER/crowsnest,org.opencontainers.image.licenses=Apache-2.0 \
	  --sbom-dir bin/image/sbom --image-refs bin/image/refs $(if $(IMAGE),,--push=false --oci-layout-path bin/image/layout) ./cmd/crowsnest

# CHARTS=oci://registry.example.org/crowsnest/charts is where the chart goes. The last line
# that helm prints has its digest.
publish-chart: ## package the chart with VERSION and push it to CHARTS
	@mkdir -p dist
	helm package deploy/helm/crowsnest --version $(VERSION) --app-version $(VERSION) --destination dist
	helm push dist/crowsnest-$(VERSION).tgz $(CHARTS) $(HELM_FLAGS)

# `make module PATH=...` would also replace the PATH of every recipe.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(shell if [ -r /proc/$$PPID/environ ]; then while IFS= read -r -d '' v; do case $$v in (PATH=*) echo "$${v:5}";; esac; done < /proc/$$PPID/environ; else echo "$$PATH"; fi)
endif
module: ## set the module path and the owner: make module PATH=github.com/owner/crowsnest
	$(GO) run ./test/module '$(MODULE)'
	$(GO) build ./...
	$(GO) vet ./... && $(GO) vet -tags e2e ./...
	$(GO) test -short ./cmd/... ./rules/... ./daemon/config ./test

chaos: ## run the long form of kills, rotations and hanging peers; make test runs a short form
	CROWSNEST_CHAOS=1 $(GO) test -count=1 -timeout 120m ./test/chaos
	CROWSNEST_CHAOS=1 $(GO) test -tags e2e -count=1 -timeout 60m -run TestKills ./sources/journal
	CROWSNEST_CHAOS=1 $(GO) test -tags e2e -count=1 -timeout 60m -run TestWitnessKilled ./test/chaos
	CROWSNEST_CHAOS=1 $(GO) test -tags e2e -count=1 -timeout 60m ./test/clusters

# The folders with fuzz targets.
FUZZED = git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u

fuzz: ## run every fuzz target for FUZZTIME, and thousands of histories of rotated logs
	TAIL_SEEDS=300 $(GO) test ./sources/internal/tail -timeout 60m -run 'Random|RotationModel|OneOfManyLogs' -args -rapid.checks=2000
	$(GO) test ./episodes -run 'Model|Depend|Nothing' -args -rapid.checks=20000
	@$(FUZZED) | GO=$(GO) xargs -n1 test/fuzz.sh $(FUZZTIME)

# Two packages at a time: one links while the other runs.
test-fuzz: ## run every fuzz target briefly
	@$(FUZZED) | GO=$(GO) xargs -P2 -n1 test/fuzz.sh $(FUZZRUNS)

clean: ## remove bin
	rm -rf bin
