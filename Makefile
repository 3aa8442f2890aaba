# make help lists the targets. Everything that is built stays in bin/ and build/, tools and downloads in the user's
# cache folder.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 10s
IMAGES   ?= build/images
# The modules of this repository, each in its own folder.
MODULES  := . $(patsubst %/go.mod,%,$(wildcard tools/*/go.mod test/*/go.mod))

# Debian's Go doesn't fetch the toolchain that go.mod names unless it is told to.
export GOTOOLCHAIN ?= auto

build_flags = -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what building and testing need (Debian, as root).
	@hack/setup.sh

.PHONY: go
go:
	@go version >/dev/null 2>&1 || { echo "Go 1.26 or later is needed: run 'make setup' as root, or install it from https://go.dev/dl" >&2; exit 1; }
	@go list -m >/dev/null || { echo "Go 1.26 or later is needed, and $$(go env GOROOT) is older: set GOTOOLCHAIN=auto, or install it from https://go.dev/dl" >&2; exit 1; }

.PHONY: build
build: go ## Build bin/nohuddle and bin/nohuddle-shim.
	@mkdir -p bin
	CGO_ENABLED=0 go build $(build_flags) -o bin/nohuddle ./cmd/nohuddle
	CGO_ENABLED=0 go build $(build_flags) -o bin/nohuddle-shim ./cmd/nohuddle-shim

.PHONY: images
images: go ## Make the example images in build/images, from Debian packages.
	@go run ./tools/mkimage -o $(IMAGES) examples/images.yaml || { \
		echo "once more, with new package lists" >&2; \
		hack/setup.sh --update && go run ./tools/mkimage -o $(IMAGES) examples/images.yaml; }

.PHONY: generate
generate: go ## Regenerate what is generated from the API's types.
	"$$(hack/tool.sh controller-gen)" object paths=./api/...

.PHONY: verify
verify: go ## Fail if generated files, formatting or go.mod files are not as they should be.
	@hack/verify.sh $(MODULES)

.PHONY: lint
lint: go ## Run golangci-lint.
	"$$(hack/tool.sh golangci-lint)" run ./...

.PHONY: test
test: setup ## Install what tests need, then build, lint, verify and run every test.
	@$(MAKE) --no-print-directory build images lint verify
	go test -run TestStepOfThousandPlays ./internal/plan # a figure that the race detector would spoil
	go test -race -count=1 -timeout 30m ./...

.PHONY: fuzz
fuzz: go ## Run each fuzz target for FUZZTIME (10s).
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: bench-local
bench-local: build images ## Measure hand-over, swaps and memory on this machine: a table, and JSON in build/bench.json.
	go run ./bench -nohuddle bin/nohuddle -shim bin/nohuddle-shim -images $(IMAGES) -json build/bench.json

.PHONY: demo
demo: setup ## Run examples/wgs, and beside it the same containers all at once.
	@$(MAKE) --no-print-directory build images
	@go run ./hack/demo -nohuddle bin/nohuddle -images $(IMAGES) examples/wgs

.PHONY: clean
clean: ## Remove bin and build.
	rm -rf bin build
