# `make` lists the targets. They need only go, git and make: tools, a control plane for tests and a whole cluster are
# built from Go modules, once per version, into the user's cache directory ($XDG_CACHE_HOME, else ~/.cache).

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

CLUSTER := go -C hack/cluster run .
GINKGO = "$$(hack/tool.sh ginkgo)"
# golangci-lint with the linter for Kubernetes APIs.
GOLANGCI_LINT = "$$(hack/tool.sh golangci-lint-kube-api-linter)"

# The race detector needs a C compiler.
RACE ?= $(if $(shell command -v gcc),-race,)
# How long one fuzz target runs in `make fuzz`.
FUZZTIME ?= 10s
# The image of the launcher and further flags of the manager, for `make run`.
LAUNCHER_IMAGE ?= capstan.dev/launcher:dev
ARGS ?=
# The images that `make images` builds: all, or some of manager, launcher, toolbox, mcpserver.
IMAGES ?=

# The number of processes that run test/turns, each with its own API server. The specs mostly wait.
TURNS_PROCS ?= 4

# Separate Go modules, so that the product does not require their dependencies.
modules = hack/cluster hack/dist hack/release test/gitops/argocd test/observability
# Separate modules that use only public packages, as users' modules do.
examples = examples/testing

# Suites that need an API server run two at a time: each starts its own, and spends much of its time waiting.
suites = $$(go list ./test/... | grep -v /test/e2e | grep -v -E '$(measured)' || true)
# Suites that measure time (no write for half a minute, one write a second) or that run in a single thread. The race
# detector makes them several times slower, and the tests of the packages themselves run under it.
measured = /test/(attacks|crash|perf|turns|validation)(/|$$)
measured_suites = $$(go list ./test/... | grep -v -E '/test/(e2e|crash|turns)' | grep -E '$(measured)' || true) $(conformance)
# The conformance suites of the journal and of records on an API server, and on PostgreSQL: several times slower under
# the race detector.
conformance = ./internal/runtime/journal/kubernetes/... ./internal/runtime/record/kubernetes/... \
	./internal/runtime/journal/postgres/... ./internal/runtime/record/postgres/...
units = $$(go list ./... | grep -v -E '/(test|hack|cmd/launcher|(journal|record)/(kubernetes|postgres))(/|$$)' | grep -v -E '$(single)')
# The tests of the drivers and of the in-memory journal decode megabytes in a single thread: twenty times slower under
# the race detector. The packages that use them from many threads are tested under it. Some tests measure the
# memory of processes, to which the detector adds more than their limit.
single = /(model/(anthropic|google|openai|drivers)|journal/memory|testing/memory|hook/bash(/shell)?)$$
# Tests that measure, in a single thread, how many bytes something takes: the race detector makes them ten times slower,
# and minutes long. The other tests of their packages run under it.
sized = ^(TestTurnsThatWaitInProcessHoldNoTexts|TestTurnsThatWaitHoldLittleMemory|TestTheLargestStatus.*|TestAValidatorKeepsABoundedNumberOfBytes|TestWhatASchemaKeepsIsNotUnderestimated)$$
sized_units = ./capstantest/inprocess ./internal/controller/turn ./internal/runtime/step ./internal/runtime/tool/inputschema
# Programs, tested without cgo as the images contain them, and what test/e2e has that needs no cluster. The memory of
# Records is measured without the race detector, beside their other tests, which run under both.
plain_units = ./cmd/launcher/... ./hack/... ./test/e2e ./internal/runtime/record $$(go list ./internal/... | grep -E '$(single)')
with_assets = KUBEBUILDER_ASSETS="$$($(CLUSTER) assets)"
kubectl = "$${KUBECTL:-$$(command -v kubectl || echo "$$($(CLUSTER) assets)/kubectl")}"

##@ Help

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Code

# Without cgo and stripped, as in the images.
go_build = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $$(hack/version.sh)"

.PHONY: build
build: ## Build the manager, the launcher and kubectl-capstan into bin/.
	@$(go_build) -o bin/ ./cmd/manager ./cmd/launcher ./cmd/kubectl-capstan

.PHONY: generate
generate: ## Generate the deep copies and the apply configurations of the API types.
	@hack/generate.sh objects

.PHONY: manifests
manifests: ## Generate the CustomResourceDefinitions and the manager's role.
	@hack/generate.sh manifests

.PHONY: dist
dist: ## Generate dist (install.yaml, JSON schemas), the Helm chart and the health checks of Argo CD.
	@hack/generate.sh dist

.PHONY: docs
docs: ## Generate docs/conformance.md, docs/flags.md, and the reference in docs/cli.md.
	@hack/generate.sh docs

.PHONY: check-generated
check-generated: ## Regenerate all generated files, and fail if one was stale.
	@hack/check-generated.sh

.PHONY: fmt
fmt: ## Format the code.
	@echo "==> formatting"
	@$(GOLANGCI_LINT) fmt ./...
	@for module in $(modules) $(examples); do (cd $$module && $(GOLANGCI_LINT) fmt ./...); done

.PHONY: vet
vet: ## Run go vet.
	@echo "==> vetting"
	@go vet -tags e2e ./...
	@for module in $(modules) $(examples); do go -C $$module vet ./...; done

.PHONY: lint
lint: ## Run the linters of .golangci.yml.
	@echo "==> linting"
	@export CGO_ENABLED=0; linter=$(GOLANGCI_LINT); $$linter config verify; code=0; \
		for module in . $(modules) $(examples); do (cd $$module && $$linter run ./...) || code=$$?; done; exit $$code

##@ Tests

# Not written as $(MAKE) where it is an argument: make -n runs each line that has it.
submake := $(MAKE)
# What needs no quiet machine runs beside what mostly waits: the linters and the build of the cluster's programs beside
# the suites, and the tests of packages beside the specs that have the cluster to themselves.
.PHONY: test
test: ## Run everything: generated files, linters, unit tests, suites with an API server, a real cluster.
	@$(MAKE) check-generated
	@$(MAKE) envtest
	@hack/beside.sh --nice 10 '$(submake) lint && $(CLUSTER) build' '$(submake) test-suites'
	@hack/e2e.sh --part shared
	@hack/beside.sh --nice 10 '$(submake) test-packages test-examples' 'hack/e2e.sh --no-deploy --part alone'
	@$(MAKE) test-install
	@echo "==> all tests passed"

.PHONY: envtest
envtest: ## Build etcd, kube-apiserver and kubectl for the suites (takes minutes the first time).
	@echo "==> building the control plane for tests, unless it exists"
	@$(CLUSTER) build --only envtest

.PHONY: postgres
postgres:
	@hack/postgres.sh

.PHONY: test-unit
test-unit: test-packages test-suites ## Run the unit tests and the suites that need only an API server. Needs no root.

.PHONY: test-packages
test-packages: envtest postgres ## Run the unit tests.
	@if [ -z "$(RACE)" ]; then echo "==> no C compiler: the race detector is off"; fi
	@echo "==> unit tests"
	@$(with_assets) go test $(RACE) -skip '$(sized)' -shuffle=on -timeout 15m $(units)
	@CGO_ENABLED=0 go test -run '$(sized)' -shuffle=on -timeout 15m $(sized_units)
	@$(with_assets) CGO_ENABLED=0 go test -shuffle=on -timeout 15m $(plain_units)
	@for module in $(modules); do $(with_assets) CGO_ENABLED=0 go -C $$module test -timeout 15m ./...; done

.PHONY: test-suites
test-suites: envtest postgres ## Run the suites that need only an API server.
	@suites="$(suites)"; if [ -n "$$suites" ]; then \
		echo "==> suites with an API server"; \
		$(with_assets) go test $(RACE) -count=1 -p 2 -timeout 20m $$suites; \
	fi
	@$(MAKE) test-turns
	@$(MAKE) test-measured
	@$(MAKE) test-faults

.PHONY: attacks
attacks: ## Make the attempts to escape, and write their table (docs/attacks.md).
	@echo "==> attempts to escape"
	@CGO_ENABLED=0 go test -count=1 -timeout 15m ./test/attacks -write

# Not in parallel with the suite of Turns, which uses all CPUs: these suites measure time.
.PHONY: test-measured
test-measured: envtest postgres
	@echo "==> validation of the API, the journal and records on an API server and on PostgreSQL, and measurements"
	@$(with_assets) CGO_ENABLED=0 go test -count=1 -p 2 -timeout 20m $(measured_suites)

.PHONY: test-turns
test-turns: envtest postgres ## Run the suite of Turns, in TURNS_PROCS (4) processes.
	@echo "==> Turns"
	@$(with_assets) CGO_ENABLED=0 $(GINKGO) run --procs=$(TURNS_PROCS) --timeout=20m ./test/turns

# -v: the fault suite prints how often each kind of fault was injected, also when it passes.
faults = $(with_assets) CGO_ENABLED=0 go test -count=1 -v

.PHONY: test-faults
test-faults: envtest postgres ## Run a sample of the fault suite. FAULT_SEED and FAULT_CELLS select the sample, FAULT_FOCUS filters by a regular expression.
	@echo "==> faults: a sample"
	@$(faults) -timeout 20m ./test/crash

.PHONY: test-exhaustive
test-exhaustive: envtest postgres ## Run the whole fault suite, and the crowds of Turns and Schedules at their full size (hours).
	@echo "==> faults: all of them"
	@FAULT_CELLS=0 $(faults) -timeout 12h ./test/crash
	@echo "==> crowds: all of them"
	@CAPSTAN_CROWD=300 CAPSTAN_SCHEDULES=1000 CAPSTAN_IDLE_SCHEDULES=10000 $(with_assets) CGO_ENABLED=0 \
		go test -count=1 -timeout 3h ./test/turns -args -ginkgo.focus 'A crowd of' -ginkgo.v

.PHONY: test-examples
test-examples: envtest ## Run the tests of the example modules, as users do.
	@echo "==> examples"
	@for module in $(examples); do $(with_assets) CGO_ENABLED=0 go -C $$module test -count=1 -timeout 10m ./...; done

.PHONY: test-e2e
test-e2e: ## Run the tests on a real cluster, and start one if needed (takes minutes the first time).
	@echo "==> tests on a real cluster"
	@hack/e2e.sh

# The version before is built of INSTALL_BEFORE, by default the commit before. The images are for this machine's platform,
# which the cluster has; INSTALL_PLATFORMS=linux/amd64,linux/arm64 builds them for both.
.PHONY: test-install
test-install: ## Install, upgrade, roll back and uninstall releases on a real cluster, with INSTALL_TURNS (6) Turns running.
	@echo "==> installs on a real cluster"
	@hack/install-test.sh $(if $(INSTALL_TURNS),--turns "$(INSTALL_TURNS)")

.PHONY: test-install-exhaustive
test-install-exhaustive: ## The same with 50 Turns, images for two platforms, the plugin for six, and README's commands (many minutes).
	@echo "==> installs on a real cluster, all of them"
	@hack/install-test.sh --exhaustive

.PHONY: test-load
test-load: ## Run the specs under load on a real cluster (many minutes). LOAD_FOCUS selects specs by a regular expression.
	@echo "==> load on a real cluster"
	@hack/e2e.sh --load $(if $(LOAD_FOCUS),--focus "$(LOAD_FOCUS)")

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	@hack/fuzz.sh "$(FUZZTIME)"

.PHONY: bench
bench: postgres ## Run the benchmarks.
	@echo "==> benchmarks"
	@packages=$$(grep -rlE --include='*_test.go' '^func Benchmark' $$(go list -f '{{.Dir}}' ./...) | xargs -r -n1 dirname | sort -u); \
		if [ -z "$$packages" ]; then echo "no benchmarks"; else $(with_assets) go test -run '^$$' -bench . -benchmem $$packages; fi

.PHONY: bench-terminal
bench-terminal: envtest ## Measure how long a word takes from a model server to the terminal of a user who chats.
	@$(with_assets) CGO_ENABLED=0 go test -run '^$$' -bench Terminal -benchtime 5x ./test/perf

##@ A cluster on this machine

.PHONY: cluster-up
cluster-up: ## Start a single-node Kubernetes, built from Go modules.
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## Stop the cluster and remove all of its state.
	@$(CLUSTER) down

.PHONY: images
images: ## Build the images as tarballs, without a container engine. IMAGES selects some of them.
	@echo "==> building images"
	@$(CLUSTER) images $(IMAGES)

.PHONY: demo
demo: ## Bring up a cluster, deploy Capstan, run a first Turn, and chat.
	@hack/demo.sh

.PHONY: demo-down
demo-down: ## Remove what `make demo` created.
	@hack/demo-down.sh

##@ Releases

# What to release, and how. The default version is that of git's tags, the default base distroless/static.
REGISTRY ?=
VERSION ?=
BASE ?=
PLATFORMS ?=
RELEASE_OUT ?= bin/release
release_flags = -registry "$(REGISTRY)" -out "$(abspath $(RELEASE_OUT))" $(if $(VERSION),-version "$(VERSION)") \
	$(if $(BASE),-base "$(BASE)") $(if $(PLATFORMS),-platforms "$(PLATFORMS)")

.PHONY: release
release: ## Push images and chart to REGISTRY, and write install.yaml and the other files of a release into bin/release. VERSION, BASE (an image, or scratch) and PLATFORMS may be set.
	@CGO_ENABLED=0 go -C hack/release run . $(release_flags)

##@ The cluster of your kubeconfig

.PHONY: run
run: build ## Run the manager on this machine, without leader election. The cluster needs the CustomResourceDefinitions. ARGS adds flags.
	@bin/manager --leader-elect=false --launcher-image=$(LAUNCHER_IMAGE) $(ARGS)

.PHONY: install
install: ## Install the CustomResourceDefinitions.
	@$(kubectl) apply --server-side -k config/crd

.PHONY: uninstall
uninstall: ## Remove the CustomResourceDefinitions, and with them every object of their kinds, journals included.
	@KUBECTL=$(kubectl) hack/undeploy.sh --definitions-only

.PHONY: deploy
deploy: ## Install Capstan from config/default, on a cluster whose nodes have the images of `make images`.
	@$(kubectl) apply --server-side -k config/default

.PHONY: undeploy
undeploy: ## Wait for running Turns to end (WAIT=60s), then remove Capstan and every object of its kinds. CANCEL=1 cancels Turns that still run.
	@KUBECTL=$(kubectl) hack/undeploy.sh $(if $(WAIT),--wait $(WAIT)) $(if $(CANCEL),--cancel)
