# The commands people type. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO ?= cargo
STORE ?=
JOBS ?= 1000000

.PHONY: help demo test lint bench deps

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: ## enqueue and work a million jobs (embedded SQLite; STORE=postgres://... for PostgreSQL)
	$(CARGO) run --release --quiet --package windlass-cli -- $(if $(STORE),--store '$(STORE)') demo --jobs $(JOBS)

test: deps lint ## everything that CI runs; installs what is missing, starts its own PostgreSQL
	$(CARGO) build --workspace --all-targets
	scripts/with-postgres $(CARGO) test --workspace --no-fail-fast

lint: ## formatting, clippy, and cargo-deny where it is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny check; else echo 'cargo-deny is not installed: left out (cargo install cargo-deny)'; fi

bench: deps ## the figures of BENCHMARKS.md, on this machine
	$(CARGO) build --release --package windlass-cli
	scripts/bench

deps: ## what the tests need besides Rust: PostgreSQL, PgBouncer, libfaketime, a C compiler
	@scripts/deps
