# The front door. The build itself is in meson.build; the longer steps are scripts in tools/.
#
#     make demo      trains a model and shows its curve
#     make test      runs every test
#     make help      lists the rest

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

BUILD := build
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=

.PHONY: build demo test sim check bench quality experiments tidy install clean help

build: ## builds the library and the program in build/
	@tools/deps build
	@TARGETS=product tools/build
	@echo "built $(BUILD)/rubato, $(BUILD)/librubato.so and $(BUILD)/librubato.a"

demo: ## trains a model on generated data and shows its evaluation and its curve
	@tools/deps build
	@TARGETS=rubato tools/build
	@tools/demo

test: ## builds, then runs every test
	@tools/deps build test
	@tools/build
	@tools/test $(BUILD)

sim: ## 10,000 simulated clusters with faults, judged after every event; SEED=n repeats one
	@tools/deps build test
	@tools/build
	@tools/sim $(SEED)

check: ## tidy, sanitizers, fuzz targets and the tools' own checks: what CI runs after the tests
	@tools/deps build test check
	@tools/check

bench: ## measures this machine, the core against it, and training against peers
	@tools/deps build bench
	@tools/build
	@tools/bench

quality: ## measures default options and solvers beside peers, on real data sets
	@tools/deps build defaults
	@tools/build
	@tools/bench_defaults
	@tools/bench_solvers

experiments: ## repeats the papers' experiments on simulated clusters, and draws them
	@tools/deps build experiments
	@tools/build
	@tools/experiments

tidy: ## checks layout, names, includes and spelling of the source
	@tools/deps build check
	@tools/tidy

# Where the library goes is said here, not left to meson: it asks dpkg-architecture, which a Debian
# without dpkg-dev has not, and then takes lib64, where neither the loader nor pkg-config looks.
install: ## installs the program, the library and the headers under PREFIX (its libraries in LIBDIR)
	@tools/deps build
	@TARGETS=product tools/build --prefix "$(abspath $(PREFIX))" --libdir "$(LIBDIR)"
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --quiet
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" -eq 0 ]; then PATH=$$PATH:/sbin:/usr/sbin ldconfig; fi
	@echo "installed rubato under $(DESTDIR)$(abspath $(PREFIX))"

clean: ## removes everything that was built
	@rm -rf build build-asan build-tsan build-fuzz build-one-protocol
	@echo "removed build, build-asan, build-tsan, build-fuzz and build-one-protocol"

help: ## lists the targets
	@sed -n 's/^\([a-z]*\): ## /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do \
	    printf 'make %-11s %s\n' "$$name" "$$text"; done
