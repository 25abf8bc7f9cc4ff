# The commands people type. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO ?= cargo
STORE ?=
JOBS ?= 1000000
BASE ?=
ARGS ?=

# The test targets that need no PostgreSQL server: all but those named `server` and those of windlass-postgres.
TESTS = $(basename $(notdir $(wildcard $(1)/*.rs))) $(patsubst %/main.rs,%,$(subst $(1)/,,$(wildcard $(1)/*/main.rs)))
SERVER_TESTS := server $(call TESTS,crates/windlass-postgres/tests)
LOCAL_TESTS := $(filter-out $(SERVER_TESTS),$(sort $(foreach crate,$(wildcard crates/*),$(call TESTS,$(crate)/tests))))
# Everything is built with the features of the whole workspace and all of the façade's (as in scripts/test-versions):
# what is built for one command serves the next.
WORKSPACE := --workspace --features windlass/sqlx,windlass/diesel,windlass/testing
# All but what --all-targets adds for benchmarks: a second build of each library that has no tests.
TARGETS := --lib --bins --tests --examples
LOCAL := --lib --bins $(addprefix --test ,$(LOCAL_TESTS))
# Of these twice as many at once as there are processors: most of their time they wait for a clock or for a program. (The contract in memory: 37 s, and 20 so.
# What is PostgreSQL's own, on a busy machine: 317 s, and 211 so.)
THREADS := $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN || echo 1))
# Their temporary files are in memory, where there is room and programs may be started: on a disk SQLite's tests wait for that.
LOCAL_FILES = $(shell if [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts && [ $$(df --output=avail /dev/shm | tail -n 1) -gt 4000000 ]; then echo /dev/shm; else echo $${TMPDIR:-/tmp}; fi)
LOCAL_RUN = env TMPDIR=$(LOCAL_FILES) RUST_TEST_THREADS=$(THREADS) $(CARGO) test $(WORKSPACE) --no-fail-fast
CHAOS := $${CARGO_TARGET_DIR:-target}/debug/windlass-chaos

.PHONY: help dashboard demo check dist doc test test-dashboard test-dist test-node test-python test-interop test-versions lint lint-text bench bench-peers bench-pages bench-sdks bench-check bench-report deps chaos chaos-short suite-short

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

demo: ## enqueue and work a million jobs (embedded SQLite; STORE=postgres://... for PostgreSQL)
	$(CARGO) run --release --quiet --package windlass-cli -- $(if $(STORE),--store '$(STORE)') demo --jobs $(JOBS)

check: lint ## formatting, clippy and every test that needs no server (two minutes when built before)
	python3 -m unittest discover --quiet --start-directory bench/tests --top-level-directory .
	$(CARGO) test $(WORKSPACE) $(LOCAL) --no-run
	$(MAKE) --jobs 3 --keep-going --output-sync=target --no-print-directory SERVER= $(LOCAL_PARTS)

test test-dashboard test-dist test-node test-python test-interop test-versions: export WINDLASS_TEST_FSYNC := off
# Clippy is the compiler here, so that one build lints, too: `cargo clippy` before it would compile every dependency twice (two minutes).
test: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
test: export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# One that hangs is to say so before CI's time is over.
test: export WINDLASS_TEST_LIMIT := 1800
test: export TIMEFORMAT := took %R s, %U s of the processor
test: deps lint-text ## everything that CI runs; installs what is missing, starts its own PostgreSQL
	@if command -v cargo-deny >/dev/null; then cargo deny check; else echo 'cargo-deny is not installed: left out (cargo install cargo-deny)'; fi
	python3 -m unittest discover --quiet --start-directory bench/tests --top-level-directory .
	$(FETCH) >/dev/null 2>&1 & time $(CARGO) build $(WORKSPACE) $(TARGETS); built=$$?; wait; exit $$built
	$(MAKE) --jobs 4 --keep-going --output-sync=target --no-print-directory $(PARTS)
	$(MAKE) --no-print-directory suite-short

# What the parts need from the network, had while the processors build: a part that waits for it keeps others from beginning. What does not come in
# that time is had, and what is not to be had is said, by the part that needs it.
FETCH := timeout 240 bash -c 'scripts/postgres-versions oldest newest & scripts/node-modules & scripts/node-modules dashboard & \
	scripts/venv python requirements-dev.txt & scripts/venv dist-tools requirements-dist.txt & wait'

# Parts of `make test`, four at a time: each waits for a server, a browser or a clock for half of its time, and for the processor with three. What
# each says is shown when it ends, and how long it took. The longest come first: one that is the last to go on leaves a processor without work.
PARTS := part-server part-sdks part-oldest part-dashboard part-newest part-local part-plans part-bugs part-store part-libs part-programs part-interleavings part-doc
# Those of `make check`, where SERVER is empty: one binary waits while another works.
LOCAL_PARTS := part-local part-store part-libs part-programs part-doc
SERVER := scripts/with-postgres
.PHONY: $(PARTS)
part-server:
	time RUST_TEST_THREADS=$(THREADS) scripts/with-postgres $(CARGO) test $(WORKSPACE) --no-fail-fast --test server

part-plans:
	time scripts/with-postgres $(CARGO) test $(WORKSPACE) --no-fail-fast $(addprefix --test ,$(filter-out server,$(SERVER_TESTS))) -- --skip as_owner:: --skip as_granted::

# Those that need no server. Libraries have some that use one where there is one.
part-libs:
	time $(SERVER) $(LOCAL_RUN) --lib --bins

part-programs:
	time $(LOCAL_RUN) --test cli

part-local:
	time $(LOCAL_RUN) $(addprefix --test ,$(filter-out cli store,$(LOCAL_TESTS)))

# SQLite's: they take half as long as those above, after which they would be the last to run, and beside nothing.
part-store:
	time $(LOCAL_RUN) --test store

part-doc:
	time $(CARGO) test $(WORKSPACE) --doc

# One after the other: the later ones use what the earlier ones built.
part-sdks:
	time scripts/with-postgres scripts/test-node
	time scripts/with-postgres scripts/test-python tests ../../conformance/interop
	time scripts/test-dist

part-dashboard:
	time scripts/with-postgres scripts/test-dashboard

# The storage contract runs on the oldest version as the owner of the schema and on the newest as a role that was granted what it needs;
# everything else on the version of the system.
part-oldest part-newest: export WINDLASS_TEST_DEEP := 200000
part-oldest part-newest: export WINDLASS_MODEL_SEEDS := 3
part-oldest:
	time scripts/test-versions oldest -- --test contract --test plans -- as_owner:: claims::

part-newest:
	time scripts/test-versions newest -- --test contract --test plans -- as_granted:: claims::

# Of chaos-short what has no verdict on how long something takes: a busy machine costs a storm or two more.
part-bugs:
	time $(CHAOS) bugs --one-in 5 --side-by-side 4 --until-caught --tries 24

part-interleavings:
	time $(CARGO) test $(WORKSPACE) --test interleavings interleavings::

test-python: deps ## the Python package: its native module, types and tests
	$(CARGO) build $(WORKSPACE)
	scripts/with-postgres scripts/test-python $(ARGS)

test-node: deps ## the TypeScript package: its addon, types, examples and tests
	$(CARGO) build $(WORKSPACE)
	scripts/with-postgres scripts/test-node $(ARGS)

dashboard: ## the pages of `windlass serve`, from dashboard/ into crates/windlass-server/assets (committed)
	scripts/node-modules dashboard
	node dashboard/build.mjs

test-dashboard: deps ## the dashboard: types, that its build is the committed one, its pages in Chromium over a mock and the real server
	$(CARGO) build $(WORKSPACE)
	scripts/with-postgres scripts/test-dashboard $(ARGS)

test-interop: deps ## jobs enqueued in each language and worked in each other one
	$(CARGO) build $(WORKSPACE)
	$(CARGO) build $(WORKSPACE) --example interop
	scripts/with-postgres scripts/test-interop $(ARGS)

test-dist: deps ## the packages, quickly built: each installed where nothing else is, and the README's first screen run
	$(CARGO) build $(WORKSPACE)
	scripts/test-dist

dist: deps ## the packages of this platform as they are released, into dist/: wheel, sdist, npm tarballs, static command; tested
	scripts/dist
	PROFILE=dist scripts/test-dist dist

test-versions: deps ## the tests that need PostgreSQL, on every version from 13 to 18
	$(CARGO) build $(WORKSPACE) $(TARGETS)
	WINDLASS_TEST_DEEP=2000000 scripts/test-versions -- $(addprefix --test ,$(SERVER_TESTS))

# Without windlass-cli, whose library has the name of the façade for rustdoc.
doc: ## the reference of the Rust crates, into target/doc; refuses links that lead nowhere
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc $(WORKSPACE) --no-deps --exclude windlass-cli

lint: lint-text ## formatting, clippy, no circles of imports, the tests of conformance/behaviours.md
	$(CARGO) clippy $(WORKSPACE) $(TARGETS) -- -D warnings

lint-text:
	scripts/import-circles
	scripts/behaviours
	scripts/features
	$(CARGO) fmt --all --check

chaos-short: deps ## faults against real processes, a short slice of each on one of its stores; a fifth of the seeded bugs, by the seed (minutes)
	$(CARGO) build $(WORKSPACE) $(TARGETS)
	$(MAKE) --no-print-directory suite-short part-bugs

suite-short:
	time eval "$(CHAOS) suite --one-store --side-by-side 5 $$(scripts/chaos-actors)"

chaos: deps ## the same in full, all interleavings, the simulator's long run: hours; the verdict goes to chaos.json
	$(CARGO) build --package windlass-py-witness --package windlass-node-witness
	eval "$(CARGO) run --release --quiet --package windlass-chaos -- suite --full --json chaos.json $$(scripts/chaos-actors)"
	$(CARGO) run --release --quiet --package windlass-chaos -- bugs --tries 20
	WINDLASS_PERMUTE_FULL=1 scripts/with-postgres $(CARGO) test --release --package windlass-chaos --test server --test local permuter
	WINDLASS_TEST_DEEP=10000000 scripts/with-postgres $(CARGO) test --release --package windlass-postgres --test plans claims::
	WINDLASS_SIM_SEEDS=100000 $(CARGO) test --package windlass-runtime --test simulation seeds -- --exact
	scripts/simulate-bugs

bench: deps ## every scenario on PostgreSQL and SQLite, on this machine; then bench-report
	WINDLASS_COMMIT=$$(git describe --always --dirty) $(CARGO) build --release --package windlass-bench
	scripts/bench $(ARGS)

bench-peers: deps ## the other systems beside us, interleaved, and the ratios (ARGS='--scale 0.1 --only river')
	bench/peers/run $(ARGS)

bench-sdks: deps ## the packages for Python and Node beside Rust, and the bars that they have to reach
	bench/sdks/run $(ARGS)

bench-pages: deps ## the dashboard over 10^7 jobs beside a drain: how long its pages take, what 20 viewers cost
	bench/pages/run $(ARGS)

bench-check: deps ## is this work tree slower than BASE (a revision; default: the newest release)?
	scripts/bench-check $(BASE)

bench-report: ## BENCHMARKS.md and its charts anew from what was measured
	python3 -m bench.report

deps: ## what the tests need besides Rust: PostgreSQL, PgBouncer, libfaketime, a C compiler
	@scripts/deps
