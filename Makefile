# Miniray's front door. meson and ninja do the work underneath (tools/build); `make help` lists what there is.
PREFIX  ?= /usr/local
DESTDIR ?=
SEEDS   ?= 1..10000
SECONDS ?= 30
HOURS   ?= 1
START   := $(shell date +%s)

.PHONY: all help deps run test check check-quick bench bench-ray sim fuzz soak install uninstall dist dist-check image release clean

all: ## Build the libraries, the miniray command, the Python package and the examples into build/
	@tools/deps --check build
	@tools/build product

run: ## Show the main job: digits are learned on all cores, a worker is killed on the way (seconds)
	@tools/deps build run
	@tools/build package
	@tools/run

test: ## Run every test, in release and under AddressSanitizer and UBSan
	@tools/deps build test dist
	@tools/build release asan
	@status=0; for dir in build build/asan; do tools/run-tests $$dir || status=1; done; \
	    echo "the slowest tests:"; tools/run-tests --slowest 10 build build/asan; \
	    echo "make test took $$(($$(date +%s) - $(START))) s"; exit $$status

check: export MINIRAY_WERROR = true
check: check-quick ## What a change must pass besides `make test`: clang, TSan, other compilers and Pythons, long tests, short fuzz runs
	@tools/step "check ABI" tools/check-abi build
	@tools/build asan clang tsan
	@tools/step "check replay" tools/check-replay build build/clang
	@tools/run-tests build/clang --unit
	@tools/run-tests build --suite long
	@ninja -C build/asan tests/soak-tests >/dev/null && tools/run-tests build/asan --suite soak
	@tools/run-tests build/tsan
	@tools/step "check python" tools/check-python
	@tools/step "check types" tools/check-types build
	@tools/deps compilers roots
	@tools/check-compilers
	@tools/fuzz 10
	@tools/check-time

check-quick: export MINIRAY_WERROR = true
check-quick: ## Format, layers, imports and docstrings of the Python package, headers, exported names, variables, dead code, error texts, links and C reference of the documents, a test for each large file, names of modules; warnings are errors
	@tools/deps build test check
	@tools/build release
	@tools/step "check format" tools/check-format
	@tools/step "check layers" tools/check-layers
	@tools/step "check imports" tools/check-imports
	@tools/step "check docstrings" tools/check-docstrings
	@tools/step "check headers" tools/check-headers
	@tools/step "check exports" tools/check-exports build
	@tools/step "check globals" tools/check-globals build
	@tools/step "check dead code" tools/check-dead build
	@tools/step "check errors" tools/check-errors
	@tools/step "check links" tools/check-links
	@tools/step "check C reference" tools/c-api --check
	@tools/step "check tests" tools/check-tested
	@tools/step "check words" tools/check-words

bench: ## Measure everything beside the limits of the machine: a table and build/bench.json (SUITE= ROW= REPEATS=)
	@tools/deps build
	@tools/build lto
	@build/lto/bench/miniray-bench --json build/bench.json \
	    $(if $(SUITE),--suite '$(SUITE)') $(if $(ROW),--row '$(ROW)') $(if $(REPEATS),--repeats '$(REPEATS)')
	@$(if $(SUITE)$(ROW),,. build/lto/env && /usr/bin/python3 bench/ray_run.py --json build/bench-python.json \
	    $(if $(REPEATS),--repeats '$(REPEATS)'))
	@$(if $(SUITE)$(ROW),,. build/lto/env && if /usr/bin/python3 -c 'import torch' 2>/dev/null; then /usr/bin/python3 bench/sync_run.py \
	    $(if $(REPEATS),--repeats '$(REPEATS)'); fi)

bench-ray: ## The rows of Ray's microbenchmark for both, Ray from PyPI in build/ray: ratios, build/bench-ray.json (ROW= REPEATS=)
	@tools/deps build
	@tools/build lto
	@tools/bench-ray $(if $(REPEATS),--repeats '$(REPEATS)') \
	    $(if $(RAY_REPEATS),--ray-repeats '$(RAY_REPEATS)') $(if $(ROW),'$(ROW)')

sim: ## Run the simulator: SEEDS=1..10000, or one SEED=n with its story; SCENARIO=name, MUTATE=name
	@tools/deps build
	@tools/build release
	@build/sim/miniray-sim $(if $(SCENARIO),--scenario '$(SCENARIO)') $(if $(MUTATE),--mutate '$(MUTATE)') \
	    $(if $(SEED),--seed '$(SEED)' --verbose,--seeds '$(SEEDS)' --jobs $$(nproc))

fuzz: ## Fuzz every decoder for SECONDS=30 each, or one TARGET=name
	@tools/deps build check
	@tools/fuzz $(SECONDS) $(TARGET)

soak: ## Repeat tests, seeds and fuzzing for HOURS=1, until something fails
	@tools/deps build test check
	@tools/soak $(HOURS)

install: ## Install headers, libraries, miniray.pc, the command and the Python package: PREFIX=/usr/local DESTDIR=
	@tools/deps --check build
	@tools/build lto
	@tools/install '$(PREFIX)' '$(DESTDIR)'

uninstall: ## Remove what `make install` installed last
	@ninja -C build/lto uninstall

dist: ## Pack the sources, wheels for each CPython and machine, and Debian packages into build/dist
	@tools/deps build dist
	@tools/build lto
	@tools/step "pack into build/dist" tools/dist
	@tools/wheels || [ $$? = 3 ]

dist-check: ## Install and use what `make dist` made in other Debian and Ubuntu systems; writes the table of docs/install.md
	@tools/deps roots dist
	@tools/dist-check

image: ## Build an image from Containerfile with buildah or podman, from a root made here, and run it with limits
	@tools/deps roots dist
	@tools/image

release: ## Make a release of this commit: VERSION=x.y.z; CHANGELOG, tag, build/release with checksums
	@tools/deps build dist
	@tools/release '$(VERSION)'

deps: ## Install the Debian packages that build, tests and checks need
	@tools/deps build test check dist

clean: ## Remove build/
	@rm -rf build

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
