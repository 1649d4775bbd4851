# Everything a newcomer, a contributor and the build need; `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export CGO_ENABLED ?= 0

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL     = go tool -modfile=tools/$(1)/go.mod
STATE   ?= .gpuaas

.PHONY: help up build agent console console-test deps test-deps servers test unit e2e race attack lint gen gen-check contract-diff bench screenshots fuzz rack-down clean

help: ## list what make can do
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
	@go build -trimpath -ldflags "$(LDFLAGS) -X main.commit=$(COMMIT)" -o bin/agent/$(VERSION)/gpuaas-agent ./cmd/gpuaas-agent
	@go build -trimpath -ldflags "$(LDFLAGS)" -o bin/agent/$(VERSION)/gpuaas-gpu ./cmd/gpuaas-gpu

servers: ## build the embedded servers once (several minutes), then take them from the cache
	@tools/build-servers.sh >/dev/null

test: test-deps build servers lint gen-check contract-diff ## the whole suite: lint, contracts, architecture, unit, store, workflow, API, end to end
	@$(MAKE) --no-print-directory unit console-test

unit: ## all Go tests with the race detector, on one private stack
	@go build -o bin/withstack ./stack/cmd/withstack
	@set -o pipefail; bin/withstack -- env CGO_ENABLED=1 go test -race -count=1 -timeout 45m ./... 2>&1 | tee bin/unit.log || \
		{ echo; echo "what failed (all of it is in bin/unit.log):"; grep -E '^FAIL|^panic:|^ *--- FAIL|^ *[a-zA-Z0-9_]+_test\.go:[0-9]+:' bin/unit.log | cut -c1-600 | head -60; exit 1; }

attack: test-deps build servers ## only the tests that carry out an attack; docs/security.md lists them
	@go build -o bin/withstack ./stack/cmd/withstack
	@bin/withstack -- go test -count=1 -timeout 30m -run '^TestAttack' \
		$$(grep -rl --include='*_test.go' '^func TestAttack' . | xargs -n1 dirname | sort -u)

e2e: deps build servers ## only the end-to-end tests
	@go build -o bin/withstack ./stack/cmd/withstack
	bin/withstack -- go test -count=1 -timeout 45m -v ./e2e/...

console-test: ## only the console's tests: its logic, and all of it in Chromium
	@cd console && npm run --silent test
	@cd console && npm run --silent e2e

screenshots: deps build servers ## pictures of every page of the console, in console/screenshots
	@tools/install-deps.sh chromium
	@cd console && npm run --silent screenshots

lint: ## golangci-lint with the strict set, go vet, formatting; eslint for the console
	@$(call TOOL,lint) golangci-lint run ./...
	@tools/build-console.sh strict && cd console && npm run --silent lint

gen: ## regenerate typed SQL, contracts, client, lifecycle pages, golden files
	@$(call TOOL,sqlc) sqlc generate
	@go test ./controlplane -run TestGeneratedFilesAreUpToDate -update >/dev/null
	@go test ./controlplane -run TestEveryOperationInEveryRole -update >/dev/null
	@$(call TOOL,oapi) oapi-codegen -config contract/apiclient/oapi-codegen.yaml contract/openapi.yaml
	@go test ./cli -run Help -update >/dev/null

gen-check: ## fail when something generated is stale
	@tools/gen-check.sh

contract-diff: ## report changes of the API contract that would break clients
	@tools/contract-diff.sh

bench: deps build servers ## measure what docs/benchmarks.md reports
	@go build -o bin/withstack ./stack/cmd/withstack
	@tools/bench.sh

fuzz: ## run each fuzz target for a while (FUZZTIME=30s)
	@tools/fuzz.sh

rack-down: ## remove every virtual rack of this system, also after a crash
	@go run ./sim/rack/cmd/rack-down

clean: ## remove what was built; the state folder stays
	@rm -rf bin
