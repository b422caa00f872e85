# A thin front for cmake and ctest. `make test` and `make demo` are all a newcomer needs: each
# installs by apt what is missing (tools/setup), builds below build/, and runs.
#
#   JOBS=4    so many compilers and tests at once (default: one per CPU)
#   SETUP=:   do not look for missing packages

SETUP  ?= tools/setup
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test asan tsan release-test stress traced-stress fuzz check aarch64 compilers bench format tidy install clean

# cmake's chatter goes to a file; warnings are shown, and all of it when it fails.
# $(call configure,preset,more arguments)
configure = mkdir -p build && { cmake --preset $(1) $(2) >build/$(1).log || { cat build/$(1).log; exit 1; }; }

# On a terminal ninja keeps its progress on one line; elsewhere only warnings and errors are shown.
# $(call build,directory,more arguments)
build = echo "building $(1)" && if [ -t 1 ]; then quiet=; else quiet=--quiet; fi && ninja -C $(1) -j $(JOBS) $$quiet $(2)

# $(call run_tests,directory)
run_tests = if [ -t 1 ]; then progress=--progress; else progress=; fi && ctest --test-dir $(1) -j $(JOBS) --output-on-failure $$progress

# $(call test_preset,preset)
define test_preset
	@$(call configure,$(1))
	@$(call build,build/$(1))
	@$(call run_tests,build/$(1))
endef

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 15

demo: ## build the library and run the tour of what it can do
	@$(SETUP) build
	@$(call configure,release,-DMAGPIE_TESTS=OFF)
	@$(call build,build/release)
	@build/release/examples/tour build/tour.trace
	@build/release/tools/magpie/magpie trace html build/tour.trace -o build/tour.html
	@echo "To look at it: open build/tour.html in a browser, or run go tool trace build/tour.trace"

test: ## build with debug checks and run all tests
	@$(SETUP) test
	$(call test_preset,dev)

asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SETUP) test
	$(call test_preset,asan)

tsan: ## the tests under ThreadSanitizer, with clang
	@$(SETUP) tsan
	$(call test_preset,tsan)

release-test: ## the tests as users get the library: optimised, debug checks off
	@$(SETUP) test
	@$(call configure,release,-DMAGPIE_TESTS=ON)
	@$(call build,build/release)
	@$(call run_tests,build/release)

# Without the monitor, so that nothing covers up for a wake-up that was lost.
stress: ## the long forms of the stress tests: 10^8 spawns and hand-overs, 10^9 channel operations, 10^5 failing calls; about half an hour
	@$(SETUP) test
	@$(call configure,release,-DMAGPIE_TESTS=ON)
	@$(call build,build/release)
	@MAGPIE_DEBUG=nosysmon=1 MAGPIE_STRESS=400 build/release/tests/stress_long_haul \
	  --gtest_filter='*Spawns*:*ParksAndReadies*:*ChannelOperations*'
	@MAGPIE_STRESS=100 build/release/tests/stress_long_haul --gtest_filter='*NoPIsIdle*'
	@MAGPIE_STRESS=20 build/release/tests/stress_test --gtest_brief=1
	@$(call configure,dev)
	@$(call build,build/dev,stress_test)
	@MAGPIE_STRESS=50 build/dev/tests/stress_test --gtest_brief=1 --gtest_filter='*Faults*'

traced-stress: ## the short forms of the stress tests while they are traced; each trace is read by magpie and by Go; about ten minutes
	@$(SETUP) test
	@$(call configure,release,-DMAGPIE_TESTS=ON)
	@$(call build,build/release,stress_test magpie_tool)
	@python3 tests/scripts/traced_stress.py build/release/tests/stress_test build/release/tools/magpie/magpie

# FUZZ_SECONDS=600 looks longer. What it finds is kept in build/fuzz/, with the inputs that led there.
fuzz: ## feed broken traces to the reader, for a minute
	@$(SETUP) tsan
	@mkdir -p build/fuzz/corpus
	@cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ >build/fuzz.log || { cat build/fuzz.log; exit 1; }
	@$(call build,build/fuzz)
	@for seed in 1 2 3 4 5 6 7 8; do build/fuzz/make_trace build/fuzz/corpus/seed$$seed $$((seed * 30)) $$((seed / 2 + 1)) 2 20 $$seed; done
	@cd build/fuzz && ./trace_reader_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=6000 -timeout=10 -rss_limit_mb=1500 -print_final_stats=1 corpus

check: asan tsan release-test test ## everything before a change goes in: test asan tsan release-test

aarch64: ## cross-build for 64-bit ARM and run the tests under qemu
	@$(SETUP) aarch64
	$(call test_preset,aarch64)

compilers: ## the fiber tests over compilers and flags, the public headers over compilers
	@$(SETUP) compilers
	@JOBS=$(JOBS) tests/scripts/compilers.sh

bench: ## the micro benchmarks, then the same work in Go and in magpie: BENCH=--quick is shorter
	@$(SETUP) bench
	@$(call configure,release,-B build/bench -DMAGPIE_BENCH=ON -DMAGPIE_TESTS=OFF -DMAGPIE_EXAMPLES=OFF)
	@$(call build,build/bench)
	@set -e; for bench in build/bench/bench/*_bench; do $$bench; done
	@bench/run $(BENCH)

format: ## clang-format over all C++ sources
	@$(SETUP) tidy
	@git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs clang-format -i

tidy: ## clang-tidy over the library
	@$(SETUP) tidy
	@$(call configure,dev,-B build/tidy -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DMAGPIE_TESTS=OFF)
	@run-clang-tidy -quiet -p build/tidy -j $(JOBS) '/(src|examples)/.*\.cpp$$' >build/tidy.log 2>&1; code=$$?; \
	  grep -Ev '^clang-tidy|warnings? (generated|treated)' build/tidy.log; exit $$code

install: ## install the library: make install PREFIX=/usr/local
	@$(SETUP) build
	@$(call configure,release,-DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX)) -DMAGPIE_TESTS=OFF)
	@$(call build,build/release)
	@cmake --install build/release

clean: ## remove everything built
	rm -rf build
