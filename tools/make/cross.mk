# The same source on other machines, under emulation, and one table of hashes for all.
.PHONY: cross test-cross test-hashes hashes

, := ,
# The levels that must have run for the table to say anything: scalar everywhere, and what every machine of the family has.
MUST_RUN_x86_64  := scalar,sse2
MUST_RUN_aarch64 := scalar,neon$(if $(TARGET),$(,)dotprod$(,)i8mm)
MUST_RUN_arm     := scalar,neon
MUST_RUN_wasm32  := scalar,simd128$(if $(filter relaxed,$(config)),$(,)relaxed)
MUST_RUN         := $(if $(filter scalar,$(config)),scalar,$(or $(MUST_RUN_$(ARCH)),scalar))
# Emulated: alone in one chunk and with two threads by sevens. WebAssembly has no threads.
HASH_WAYS := $(if $(TARGET),--pairs --threads $(if $(filter wasm,$(TARGET)),1$(,)1,1$(,)2) --chunk 0$(,)7)

# Sweeps over whole ranges of floats, damaged files on a machine of the host's word size, and ways to run each model and each search are for the host: elsewhere
# the tables of hashes say the same, and they are compared.
SWEEPS := '*ulp*,exp for softmax*,*GELU*,*SiLU*,pool: time*,*same bits at every level*,*1.8: keys and values in f16 and q8 give*,promise 4: every model*,*beam search is the plain one*,*arena is exact with beams*,*one beam is greedy*,stop strings end beams*,diverse groups: without*,coverage: scores*,*outputs and bits of scores*,*damaged byte of the package*,greedy output is the plain*$(if $(filter arm,$(ARCH)),,$(,)*every flipped bit*,*N bytes of arena work*)'

cross:
	@test -n "$(TARGET)" || { echo "cross: expected TARGET=aarch64, armhf, riscv64 or wasm, or a toolchain: CROSS=prefix-" >&2; exit 2; }
	@$(MAKE) all

hashes: $(OUT)/hash_driver
	python3 tests/machines/cross/hash_check.py write $(OUT)/hash_driver

test-hashes: $(OUT)/hash_driver $(PROGRAM)
	python3 tests/machines/cross/hash_check.py compare --levels $(MUST_RUN) $(HASH_WAYS) --program $(PROGRAM) $(or $(TARGET),host) $(OUT)/hash_driver $(if $(RUNNER),-- $(RUNNER))
	python3 tests/machines/cross/archive_check.py compare $(if $(RUNNER),,--program $(PROGRAM)) $(or $(TARGET),host) $(OUT)/hash_driver $(if $(RUNNER),-- $(RUNNER))

# A file for every family, type and value that has none yet, and its row in the index; nothing that is there changes.
.PHONY: archive
archive: .venv/ready $(OUT)/hash_driver $(PROGRAM)
	.venv/bin/python tests/golden/make_archive.py
	python3 tests/machines/cross/archive_check.py write $(OUT)/hash_driver $(PROGRAM)

ifeq ($(TARGET),)
test-cross:
	@for t in aarch64 armhf riscv64 wasm; do $(MAKE) test-cross TARGET=$$t || exit 1; done
else
test-cross: $(TESTS) $(OUT)/hash_driver $(PROGRAM)
	$(RUNNER) $(TESTS) --test-case-exclude=$(SWEEPS)
	@$(MAKE) test-hashes
	@$(MAKE) TARGET= CROSS= TOOLCHAIN= RUNNER= ARCHFLAGS= config=release all
	python3 tests/machines/cross/program_check.py $(TARGET) build/phasor $(PROGRAM) $(if $(RUNNER),-- $(RUNNER))
	$(if $(filter wasm,$(TARGET)),$(if $(filter relaxed,$(config)),@$(MAKE) test-not-fused,$(if $(NO_SIMD_NOW),@$(MAKE) test-no-simd)))
	$(if $(filter wasm,$(TARGET)),$(if $(filter relaxed,$(config)),,$(if $(RELAXED_NOW),@$(MAKE) config=relaxed test-cross)))
endif

# The module with relaxed SIMD is compiled and tested as a whole once more: with TEST_SHARE one commit in two does it.
RELAXED_NOW = $(filter-out 0,$(shell echo $$(($${TEST_SHARE:-1} == 1 || $${TEST_SEED:-0} % 2))))

# An engine without SIMD, which V8 is where it may not use SSE4.1: it does not load the module, and the one of config=scalar says what the host says.
# It is compiled for that alone, so one commit in TEST_SHARE does it (1, as without it: each).
.PHONY: test-no-simd
NO_SIMD_NOW = $(filter 0,$(shell echo $$(($${TEST_SEED:-0} % $${TEST_SHARE:-1}))))
NO_SIMD := $(RUNNER_wasm) --no-enable-sse4-1
test-no-simd: $(PROGRAM)
	@$(MAKE) config=scalar build/wasm/scalar/phasor
	@! $(NO_SIMD) $(PROGRAM) --version > build/wasm/no-simd.log 2>&1 && grep -q 'SIMD unsupported' build/wasm/no-simd.log || { cat build/wasm/no-simd.log; exit 1; }
	python3 tests/machines/cross/program_check.py wasm-scalar build/phasor build/wasm/scalar/phasor -- $(NO_SIMD)

# The module with relaxed SIMD where its multiply-add is not fused, which V8's is not without FMA3: level relaxed is not offered, and the bits are those of
# simd128. An engine without relaxed SIMD does not load it.
.PHONY: test-not-fused
NOT_FUSED := $(RUNNER) --no-enable-fma3
test-not-fused: $(PROGRAM)
	@$(RUNNER) $(PROGRAM) --version | grep -qw relaxed && ! $(NOT_FUSED) $(PROGRAM) --version | grep -qw relaxed
	@! node --no-experimental-fetch --no-experimental-wasm-relaxed-simd $(PROGRAM) --version > build/wasm/no-relaxed.log 2>&1 && grep -q CompileError build/wasm/no-relaxed.log \
	  || { cat build/wasm/no-relaxed.log; exit 1; }
	python3 tests/machines/cross/program_check.py wasm-not-fused build/phasor $(PROGRAM) -- $(NOT_FUSED)

# The table of hashes on every processor that QEMU and node give here; the boards are test-baremetal's. PROCESSORS='A53 A9' for some of them.
# And what takes too long for `make test`: clang's cross builds, the stack on other machines, the example of a CMake project.
.PHONY: test-bits test-clang test-clang-target test-cmake
test-bits:
	@bash tools/install.sh build test bits
	@$(MAKE) build/hash_driver
	@for t in aarch64 armhf riscv64 wasm; do $(MAKE) TARGET=$$t build/$$t/hash_driver || exit 1; done
	@$(MAKE) TARGET=wasm config=relaxed build/wasm/relaxed/hash_driver
	NODE_PATH=/usr/share/nodejs python3 tests/machines/cross/hash_check.py bits $(PROCESSORS)
	@$(MAKE) test-clang test-cmake
	@for t in aarch64 armhf riscv64; do $(MAKE) TARGET=$$t test-stack || exit 1; done

# The cross builds by clang, with Debian's C and C++ libraries of the cross packages.
test-clang: all
	@for t in aarch64 armhf riscv64; do $(MAKE) TARGET=$$t TOOLCHAIN=clang test-clang-target || exit 1; done
test-clang-target:
	@$(MAKE) test-hashes
	python3 tests/machines/cross/program_check.py $(TARGET)-clang build/phasor $(PROGRAM) -- $(RUNNER)

# The example of a CMake project.
test-cmake: all
	@bash tests/machines/cross/cmake_check.sh $(PROGRAM) native aarch64 armhf

# Instructions of the kernels, counted by a plugin of QEMU's dynamic build.
.PHONY: bench-cross bench-cross-write
$(COUNT_PLUGIN): tests/machines/cross/count_instructions.c
	@mkdir -p $(@D)
	$(call short,CC)cc -O2 -Wall -Wextra -shared -fPIC -fvisibility=hidden $< -o $@
ifeq ($(TARGET),)
bench-cross bench-cross-write:
	@for t in aarch64 armhf; do $(MAKE) $@ TARGET=$$t || exit 1; done
	@for board in $(BM_LEVEL_BOARDS); do $(MAKE) $(@:bench-cross%=bench-board%) BOARD=$$board || exit 1; done
else
COUNT = python3 tests/machines/cross/instructions.py $1 $(TARGET) '$(notdir $(CXX)) $(shell $(CXX) -dumpfullversion -dumpversion)' $(COUNT_PLUGIN) $(OUT)/count_kernels $(RUNNER:%-static=%)
bench-cross: $(OUT)/count_kernels $(COUNT_PLUGIN)
	@$(call COUNT)
bench-cross-write: $(OUT)/count_kernels $(COUNT_PLUGIN)
	@$(call COUNT,--write)
endif

# Level amx's instructions on an emulated processor that has them, under a Linux that gives or refuses them: tests/machines/amx/README.md.
.PHONY: test-amx
test-amx: $(PROGRAM) $(TESTS) $(OUT)/hash_driver
	BOCHS='$(BOCHS)' KERNEL='$(KERNEL)' BIOS='$(BIOS)' VGABIOS='$(VGABIOS)' bash tests/machines/amx/run.sh
	REFUSED=1 BOCHS='$(BOCHS)' KERNEL='$(KERNEL)' BIOS='$(BIOS)' VGABIOS='$(VGABIOS)' bash tests/machines/amx/run.sh
