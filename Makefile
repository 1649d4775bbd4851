# Everything a newcomer, a contributor and the build need; `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export CGO_ENABLED ?= 0
# With one set of flags everything is compiled once: clones share the cache, and
# tests and linters take what `make build` has compiled.
export GOFLAGS ?= -trimpath
# A program with the race detector lingers for a second before it exits, unless told otherwise.
export GORACE ?= atexit_sleep_ms=0
# Tests and linters collect garbage less often: that takes memory and spares a seventh of their processor time.
test check soak unit e2e race-e2e attack lint: export GOGC ?= 400

# Another content has another version, also between commits: nodes know their agent by its digest.
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)$(shell git diff --quiet HEAD 2>/dev/null || git diff HEAD | git hash-object --stdin 2>/dev/null | cut -c1-8 | sed 's/^/-/')
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL     = go tool -modfile=tools/$(1)/go.mod
STATE   ?= .gpuaas

.PHONY: help up build agent console console-test deps test-deps servers test check soak upgrade-trial unit e2e race-e2e attack lint gen gen-check contract-diff bench screenshots fuzz rack-down clean

help: ## list what make can do
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: deps build servers ## bring the whole control plane up on this machine (ARGS="--listen ...")
	@exec bin/gpuaas up --state "$(STATE)" $(ARGS)

deps: ## install what is missing from the system's packages
	@tools/install-deps.sh

test-deps:
	@tools/install-deps.sh test rack
	@tools/build-console.sh strict

build: agent console ## build bin/gpuaas, with the console in it, and the agent's package
	@echo "building bin/gpuaas"
	@go build -trimpath -ldflags "$(LDFLAGS)" -o bin/gpuaas ./cmd/gpuaas

console: ## build the web console, which bin/gpuaas takes in
	@tools/build-console.sh

agent: ## build what nodes run: bin/agent/VERSION/{gpuaas-agent,gpuaas-gpu}
	@echo "building bin/agent/$(VERSION)"
	@mkdir -p bin/agent/$(VERSION)
	@go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS) -X main.commit=$(COMMIT)" -o bin/agent/$(VERSION)/gpuaas-agent ./cmd/gpuaas-agent
	@go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/agent/$(VERSION)/gpuaas-gpu ./cmd/gpuaas-gpu

servers: ## build the embedded servers once (several minutes), then take them from the cache
	@tools/build-servers.sh >/dev/null
	@tools/build-servers.sh registry >/dev/null

test: test-deps build servers bin/withstack bin/testreport ## the whole suite, at most half an hour on two cores: what must pass before a merge
	@rm -rf bin/test && mkdir -p bin/test
	@$(MAKE) --no-print-directory -k -j3 $(addprefix step-,e2e unit lint gen-check contract-diff console-test) || \
		tools/step.sh second-try; tools/step.sh summary

# Steps that need the processor run beside those that wait for machines and engines.
step-%:
	+@tools/step.sh run $*

check: test-deps servers bin/withstack bin/testreport ## in minutes: lint, generated files, architecture, tests of what you changed (BASE=<commit>)
	@tools/check.sh

soak: test-deps build servers bin/withstack bin/testreport ## for hours: kill everything over and over, try every fault (HOURS=4, SEED=1)
	@tools/soak.sh

upgrade-trial: deps build servers ## onboard with the program of a commit, kill it, go on with this one (FROM=<commit>)
	@tools/try-upgrade.sh

# A Go test run: its events are kept in bin/test, told as they happen and, unless
# it is a step of a larger run, summed up. ONLY='-run PATTERN PACKAGE' tries a part of it again.
kept = mkdir -p bin/test; set -o pipefail; \
	bin/withstack -- $(2) | tee bin/test/$(1)$(if $(ONLY),.second).json | bin/testreport || failed=1; \
	$(if $(STEP),,bin/testreport bin/test/$(1).json || failed=1;) exit $${failed:-0}
go-test = $(call kept,$(1),env $(2) go test -json -vet=off -count=1 $(3) $(or $(ONLY),$(4)))
needs = $(if $(STEP),,$(1) bin/withstack bin/testreport)

unit: $(call needs) ## all Go tests but the end-to-end ones, on one private stack; with the race detector where memory is shared (RACE=all: everywhere)
	@cd stack/servers && go test -vet=off ./durablefile
	@$(call kept,unit,tools/unit.sh $(ONLY))

e2e: $(call needs,deps build servers) ## only the end-to-end tests, four side by side
	@$(call go-test,e2e,,-parallel 4 -timeout 30m,./e2e)

race-e2e: $(call needs,test-deps build servers) ## the end-to-end tests with the race detector in the programs that they start
	@$(call go-test,race-e2e,CGO_ENABLED=1,-race -parallel 2 -timeout 60m,./e2e)

.PHONY: bin/withstack bin/testreport
bin/withstack:
	@go build -o $@ ./stack/cmd/withstack
bin/testreport:
	@go build -o $@ ./tools/testreport

attack: test-deps build servers bin/withstack ## only the tests that carry out an attack; docs/security.md lists them
	@bin/withstack -- go test -count=1 -timeout 30m -run '^TestAttack' \
		$$(grep -rl --include='*_test.go' '^func TestAttack' . | xargs -n1 dirname | sort -u)

console-test: ## only the console's tests: its logic, and all of it in Chromium
	@cd console && npm run --silent test
	@cd console && npm run --silent e2e

screenshots: deps build servers ## pictures of every page of the console, in console/screenshots
	@tools/install-deps.sh chromium
	@cd console && npm run --silent screenshots

lint: ## golangci-lint with the strict set, go vet, formatting; alerts and dashboard; eslint for the console
	@$(call TOOL,lint) golangci-lint run ./...
	@go run -C tools/promcheck . ../../deploy/prometheus/gpuaas.rules.yaml ../../deploy/grafana/gpuaas.json ../../docs/metrics.md
	@tools/build-console.sh strict && cd console && npm run --silent lint

gen: ## regenerate typed SQL, contracts, client, lifecycle pages, golden files
	@$(call TOOL,sqlc) sqlc generate
	@go test ./controlplane -run TestGeneratedFilesAreUpToDate -update >/dev/null
	@go test ./controlplane -run TestEveryOperationInEveryRole -update >/dev/null
	@$(call TOOL,oapi) oapi-codegen -config contract/apiclient/oapi-codegen.yaml contract/openapi.yaml
	@go test ./cli -update >/dev/null
	@go test ./contract/agentwire -run TestThePageOfStepKindsIsUpToDate -update >/dev/null

gen-check: ## fail when something generated is stale
	@tools/gen-check.sh

contract-diff: ## report changes of the API contract that would break clients
	@tools/contract-diff.sh

bench: deps build servers bin/withstack ## measure what docs/benchmarks.md reports
	@tools/bench.sh

fuzz: ## run each fuzz target for a while (FUZZTIME=30s)
	@tools/fuzz.sh

rack-down: ## remove every virtual rack of this system, also after a crash
	@go run ./sim/rack/cmd/rack-down

clean: ## remove what was built; the state folder stays
	@rm -rf bin
