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

.PHONY: run test soak check bench bench-pool format symbols install clean
run: ## build and run the tour of what the library does
	@tools/setup
	@tools/build $(PRESET)
	@build/$(PRESET)/examples/tour

test: ## run all tests; TESTS=pool picks by prefix, PRESET=clang|asan|tsan the build
	@tools/setup
	@tools/test $(PRESET) $(TESTS)

soak: ## run the tests with their long loops; TESTS and PRESET as above
	@tools/setup
	@LW_SOAK=1 tools/test $(PRESET) $(TESTS)

check: ## check style, layers, symbols, headers, models; CHECK=layers picks one
	@tools/setup
	@tools/check $(CHECK)

bench: ## measure everything beside its peers
	@tools/setup build bench
	@bench/run

bench-pool: ## measure the pool beside its peers
	@tools/setup build bench
	@bench/run pool

format: ## lay out all C files as .clang-format says
	@tools/setup
	@tools/check-format --fix

symbols: ## write docs/symbols.txt anew, after a deliberate change of the API
	@tools/setup
	@tools/build dev
	@tools/check-symbols --update

install: ## install the libraries and headers under PREFIX (/usr/local); DESTDIR is honoured
	@tools/setup
	@tools/build install -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@DESTDIR=$(DESTDIR) cmake --install build/install
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

clean: ## remove everything that was built
	@rm -rf build
