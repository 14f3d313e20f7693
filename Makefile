# The front door. Everything behind it is CMake (CMakePresets.json) and the scripts in tools/.

PREFIX ?= /usr/local
PRESET ?= dev

.PHONY: help
help: ## print this
	@echo 'Legwork: an engine for background tasks'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'More: docs/HACKING.md'

.PHONY: run test test-crash test-races soak sim check bench bench-pool bench-engine bench-sqlite bench-flow bench-batch bench-server format symbols install clean
run: ## build and run the server, on a file under your state folder, until Ctrl-C
	@tools/setup
	@[ -x build/$(PRESET)/legwork ] || echo 'building the server, which takes a while the first time ...'
	@TARGETS=legwork tools/build $(PRESET)
	@exec build/$(PRESET)/legwork serve

test: ## run all tests; TESTS=pool picks by prefix, PRESET=clang|asan|tsan|ubsan the build
	@tools/setup
	@tools/test $(PRESET) $(TESTS)

test-crash: ## kill -9 a process under load, 300 times, and see that nothing is lost; PRESET as above
	@tools/setup
	@LW_SOAK=1 tools/test $(PRESET) integration.sqlite_crash

test-races: ## create and delete sites at once, kill -9 the service, 2,000 times; PRESET as above
	@tools/setup
	@LW_SOAK=1 tools/test $(PRESET) integration.site_races

soak: ## run the tests with their long loops; TESTS and PRESET as above
	@tools/setup
	@LW_SOAK=1 tools/test $(PRESET) $(TESTS)

sim: ## simulate the engine: SEEDS=1000 of them, or SEED=7 with every step; STORE=sqlite; PRESET as above
	@tools/setup
	@tools/build $(PRESET)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && cd "$$folder" && \
		LW_SEED=$(or $(SEED),$(shell date +%s)) LW_SEEDS=$(or $(SEEDS),$(if $(SEED),,1000)) \
		$(CURDIR)/build/$(PRESET)/tests/test-sim-$(if $(filter sqlite,$(STORE)),sqlite_)engine \
		--here seeds_that_are_asked_for_keep_to_the_model

check: ## check style, layers, symbols, headers, models; CHECK=layers picks one
	@tools/setup
	@tools/check $(CHECK)

bench: ## measure everything beside its peers
	@tools/setup build bench
	@bench/run

bench-pool: ## measure the pool beside its peers
	@tools/setup build bench
	@bench/run pool

bench-engine: ## measure the engine beside a Go and a Java program
	@tools/setup build bench
	@bench/run engine

bench-sqlite: ## measure the SQLite store beside beanstalkd and a bare fdatasync
	@tools/setup build bench
	@bench/run sqlite

bench-flow: ## measure steps of flows beside plain tasks
	@tools/setup build bench
	@bench/run flow

bench-batch: ## measure schedules and batches
	@tools/setup build bench
	@bench/run batch

bench-server: ## measure the server beside beanstalkd
	@tools/setup build bench
	@bench/run server

format: ## lay out all C files as .clang-format says
	@tools/setup
	@tools/check-format --fix

symbols: ## write docs/symbols.txt anew, after a deliberate change of the API
	@tools/setup
	@tools/build dev
	@tools/check-symbols --update

install: ## install the command, the libraries and headers under PREFIX (/usr/local); DESTDIR is honoured
	@tools/setup
	@tools/build install -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@DESTDIR=$(DESTDIR) cmake --install build/install
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

clean: ## remove everything that was built
	@rm -rf build
