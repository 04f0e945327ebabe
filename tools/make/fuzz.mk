# Fuzzing (tests/fuzz/README.md): one program with all targets behind libFuzzer, and a plain one that replays the committed corpus in `make test`.
#   make fuzz MINUTES=10 TARGETS='chat state'     all of them side by side, when none is named
#   make fuzz BITS=32                             the same as 32-bit programs
#   make fuzz SANITIZER=memory                    MemorySanitizer in place of the address sanitizer
#   make fuzz-sums                                what all runs on this machine add up to
#   make fuzz-corpus                              the committed corpus from what the runs have found, as small as reaches the same
.PHONY: fuzz fuzz-build fuzz-sums fuzz-corpus fuzz-replay
FUZZ_CXX  ?= clang++-19
MINUTES   ?= 10
TARGETS   ?=
BITS      ?= 64
SANITIZER ?= address
JOBS      ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_KIND := $(if $(filter memory,$(SANITIZER)),memory,address)$(filter 32,$(BITS))
FUZZ_OUT  := build/fuzz/$(FUZZ_KIND)

fuzz:
	@bash tools/install.sh fuzz $(if $(filter 32,$(BITS)),fuzz32)
	@$(MAKE) fuzz-build
	@python3 tools/make/fuzz.py run --programs $(FUZZ_OUT) --kind $(FUZZ_KIND) --minutes $(MINUTES) --jobs $(JOBS) $(TARGETS)
fuzz-build: $(FUZZ_OUT)/fuzz
fuzz-sums:
	@python3 tools/make/fuzz.py sums
fuzz-corpus: fuzz-build
	@python3 tools/make/fuzz.py merge --programs $(FUZZ_OUT) $(TARGETS)

# Work is counted (src/work.h), the arena has red zones, and a caller's bug ends the program.
FUZZ_SANITIZE := $(if $(filter memory,$(SANITIZER)),memory,address$(comma)undefined)
FUZZ_MACHINE  := $(if $(filter 32,$(BITS)),-m32 -msse2 -mfpmath=sse -idirafter /usr/include/$(MACHINE_NAME) -D_FILE_OFFSET_BITS=64)
FUZZ_FLAGS := -std=c++17 -O2 -gline-tables-only -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,$(FUZZ_SANITIZE) -fno-sanitize-recover=all -fno-sanitize-coverage=trace-cmp \
              $(FUZZ_MACHINE) $(NUMERIC) -Iinclude -Isrc -Itests/cpp $(WARN) -DPHASOR_SCALAR_ONLY -DPHASOR_COUNT_WORK $(RED_ZONES) -D_GLIBCXX_ASSERTIONS
# The C++ library is not instrumented: what it has written would look unwritten to who uses it, as all but the core do.
FUZZ_HOSTED := $(if $(filter memory,$(SANITIZER)),-fsanitize-ignorelist=tests/fuzz/hosted.txt)
# Kernels compute whole vectors, lanes beyond the end too, which nobody looks at; the fused multiply-add of software branches on their values.
FUZZ_KERNELS := $(if $(filter memory,$(SANITIZER)),$(if $(filter x86_64,$(ARCH)),-mfma))
# What the program reads and writes is the target's (tests/fuzz/capture.cpp).
FUZZ_WRAP := -Wl,--wrap=read,--wrap=write
# The program, but for what is before a command: the target of command lines has its own (tests/fuzz/arguments.cpp).
FUZZ_CLI_SRC := $(filter-out src/cli/main.cpp %/cxx_library.cpp %/begin.cpp,$(CLI_SRC))
FUZZ_TARGET_SRC := $(filter-out tests/fuzz/fuzzer.cpp tests/fuzz/replay.cpp,$(wildcard tests/fuzz/*.cpp)) $(wildcard tests/cpp/generator/*.cpp)
FUZZ_OBJ := $(patsubst %.cpp,$(FUZZ_OUT)/obj/%.o,$(PLAIN_SRC) $(call level_sources,scalar) $(FUZZ_CLI_SRC) $(FUZZ_TARGET_SRC) tests/fuzz/fuzzer.cpp)
# Comparisons are not followed: inputs are mutated where their structure is. Sums, checksums, zones and what makes inputs are no ways of an input at all.
FUZZ_NOT_FOLLOWED := src/kernels/level_% src/format/crc32c% src/runtime/zones% src/work% tests/%
$(FUZZ_OUT)/obj/%.o: %.cpp $(FUZZ_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(FUZZ_CXX) $(if $(filter $(FUZZ_NOT_FOLLOWED),$<),$(subst fuzzer-no-link$(comma),,$(FUZZ_FLAGS)),$(FUZZ_FLAGS)) $(if $(filter tests/% src/cli/%,$<),$(FUZZ_HOSTED)) $(if $(filter src/kernels/%,$<),$(FUZZ_KERNELS)) $(DEPEND) -c $< -o $@
$(FUZZ_OUT)/fuzz: $(FUZZ_OBJ)
	$(call short,LINK)$(FUZZ_CXX) $(FUZZ_MACHINE) -fsanitize=fuzzer,$(FUZZ_SANITIZE) $(FUZZ_WRAP) -pthread -o $@ $(FUZZ_OBJ)
$(FUZZ_OUT)/flags: FORCE
	$(call write_if_changed,'$(FUZZ_CXX)' '$(FUZZ_FLAGS)')
-include $(FUZZ_OBJ:.o=.d)

# The corpus over this build's own objects: its levels, its kernels, its red zones where it has them.
FUZZ_REPLAY := $(OUT)/fuzz_replay
FUZZ_REPLAY_OBJ := $(patsubst %.cpp,$(OBJ)/%.o,$(FUZZ_TARGET_SRC) tests/fuzz/replay.cpp)
$(FUZZ_REPLAY): $(FUZZ_REPLAY_OBJ) $(patsubst src/cli/%.cpp,$(CLI_OUT)/obj/src/cli/%.o,$(FUZZ_CLI_SRC)) $(LIBRARY)
	$(call short,LINK)$(CXX) $(LINK) $(FUZZ_WRAP) -o $@ $(filter %.o,$^) $(LIBRARY) $(LDFLAGS)
# Without run-time types, as the program's objects are: the sanitizer of virtual calls would ask for theirs.
$(OBJ)/tests/fuzz/%.o: tests/fuzz/%.cpp $(OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_TEST) -fno-rtti $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
ifeq ($(TARGET)$(CROSS)$(LIBC)$(PHASOR_ONLY),)
tests: $(FUZZ_REPLAY)
endif
fuzz-replay: $(FUZZ_REPLAY)
	$(FUZZ_REPLAY) tests/fuzz/corpus
-include $(FUZZ_REPLAY_OBJ:.o=.d)
