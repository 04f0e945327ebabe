# Speed and memory beside the peers, in an environment of its own. ROWS="decode 15m" measures a part, RUNS=3, THREADS=1 and TYPES='q8 q8r' are quicker,
# GGUF= is SmolLM2's Q4_1 file where its package is not installed, PAGE= leaves the page as it is.
PAGE ?= docs/design/performance.md
.PHONY: bench bench-encoder
BENCH_PROGRAMS := $(OUT)/bench_decoder $(OUT)/bench_linear $(OUT)/bench_step $(OUT)/phasor-static $(OUT)/c-translate-static $(OUT)/c-translate-small $(OUT)/bench_translator $(OUT)/bench_encoder
HAS_MUSL := $(shell command -v $(MUSL_GCC) 2>/dev/null)
BENCH_PART = $(if $(TYPES),--types $(TYPES)) $(if $(THREADS),--threads $(THREADS))
BENCH_SHORTER = $(if $(RUNS),--runs $(RUNS)) $(BENCH_PART)
STATIC_CC := $(if $(HAS_MUSL),$(MUSL_GCC),$(CC))
BENCH_PROGRAMS += $(if $(HAS_MUSL),$(OUT)/phasor-small $(OUT)/phasor-smaller)
bench: .venv-bench/ready .venv-bench/llama $(if $(filter server,$(ROWS)),.venv-bench/server/ready shared) $(if $(filter levels,$(ROWS)),.venv-bench/llama-levels) all $(BENCH_PROGRAMS)
	PYTHONPATH=tools .venv-bench/bin/python -m bench $(ROWS) --build $(OUT) $(BENCH_SHORTER) $(if $(GGUF),--gguf $(GGUF)) $(if $(PAGE),--page $(PAGE))

# What the programs weigh with everything in them: with musl where its tools are, else with the system's C library.
ifneq ($(HAS_MUSL),)
$(OUT)/phasor-static: $(LIBRARY) $(CLI_SRC)
	$(MAKE) LIBC=musl $(OUT)/musl/phasor
	strip -o $@ $(OUT)/musl/phasor
# Compiled for size, and of the levels AVX2 alone beside plain C++.
$(OUT)/phasor-small: $(CORE_SRC) $(CLI_SRC)
	$(MAKE) LIBC=musl config=small LEVELS='scalar avx2' build/small/musl/phasor
	strip -o $@ build/small/musl/phasor
# The same for q8 models of Llama's kind with a byte-level tokenizer.
$(OUT)/phasor-smaller: $(CORE_SRC) $(CLI_SRC)
	$(MAKE) LIBC=musl config=small LEVELS='scalar avx2' PHASOR_ONLY='q8 byte-bpe rms-norm rotary silu sampling chat messages' build/small/only/musl/phasor
	strip -o $@ build/small/only/musl/phasor
else
$(OUT)/phasor-static: $(CLI_OBJ) $(LIBRARY)
	$(call short,LINK)$(CXX) $(LINK) -static -s -o $@ $(CLI_OBJ) $(LIBRARY)
endif
$(OUT)/c-translate-static: examples/c/translate.c $(LIBRARY)
	$(call short,CC)$(STATIC_CC) $(C_TEST) $(LINK) -static -s -o $@ $< $(LIBRARY)
# No more than the shipped translator needs: src/build.h.
$(OUT)/c-translate-small: examples/c/translate.c $(CORE_SRC)
	$(MAKE) config=scalar PHASOR_ONLY='q8 unigram layer-norm relu sinusoidal' build/scalar/only/libphasor.a
	$(call short,CC)$(STATIC_CC) $(C_TEST) $(LINK) -static -s -o $@ $< build/scalar/only/libphasor.a

# llama-cpp-python's server and phasor.serve, for ROWS=server.
.venv-bench/server/ready: tools/locks/requirements-bench-server.txt .venv-bench/ready
	@$(VENV) --folder $(@D) .venv-bench $<
.venv-bench/llama: tools/locks/requirements-bench-llama.txt .venv-bench/ready
	bash tools/bench/llama_cpp.sh .venv-bench
	@touch $@
# The same without this processor's newest instructions, for ROWS=levels.
.venv-bench/llama-levels: .venv-bench/llama
	bash tools/bench/llama_cpp_levels.sh .venv-bench
	@touch $@

# A sentence encoder in more lengths and beside more engines than the part "encoder" of bench has.
# MODEL_DIRECTORY: another than all-MiniLM-L6-v2. THREADS=1, TYPES=q8rh: a part of it.
bench-encoder: .venv-bench/ready all $(OUT)/bench_encoder
	PYTHONPATH=tools .venv-bench/bin/python -m bench lengths --build $(OUT) $(BENCH_SHORTER) \
	  $(if $(MODEL_DIRECTORY),--encoder $(MODEL_DIRECTORY)) --alone --page build/performance-encoder.md

# Its memory is measured: a static program, as the C library's and the C++ library's pages are not Phasor's.
$(OUT)/bench_translator: private LINK += $(if $(and $(filter release,$(config)),$(filter Linux,$(shell uname -s))),-static)

# Three translators with more sentences than the part "translator" of bench has, beside CTranslate2. LINES=10000 TEXT=file SHAPES=shipped: other
# sentences of the shipped one; SHAPES='d512 d1024' TYPES='f32 q8r' THREADS='1 2' RUNS=1: a part of it. d1024 takes 8 GB of disk.
.PHONY: bench-translators
bench-translators: .venv-bench/ready all $(OUT)/bench_translator
	PYTHONPATH=tools .venv-bench/bin/python -m bench translators --build $(OUT) --runs $(if $(RUNS),$(RUNS),1) $(if $(LINES),--lines $(LINES)) \
	  $(if $(TEXT),--text $(TEXT)) $(if $(SHAPES),--shapes $(SHAPES)) $(BENCH_PART) \
	  --alone --page $(if $(filter command,$(origin PAGE)),$(PAGE),build/performance-translators.md)
