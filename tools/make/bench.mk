# Speed and memory beside the peers, in an environment of its own. ROWS="decode 15m" measures a part, RUNS=3 is quicker, PAGE= leaves the page as it is.
PAGE ?= docs/performance.md
.PHONY: bench bench-encoder
BENCH_PROGRAMS := $(OUT)/bench_decoder $(OUT)/bench_linear $(OUT)/bench_step $(OUT)/phasor-static $(OUT)/c-translate-static $(OUT)/c-translate-small $(OUT)/bench_translator $(OUT)/bench_encoder
bench: .venv-bench/ready .venv-bench/llama all $(BENCH_PROGRAMS)
	.venv-bench/bin/python tools/bench.py $(ROWS) $(if $(RUNS),--runs $(RUNS)) --build $(OUT) $(if $(PAGE),--page $(PAGE))

# What the programs weigh with everything in them.
$(OUT)/phasor-static: $(CLI_OBJ) $(LIBRARY)
	$(CXX) $(LINK) -static -s -o $@ $(CLI_OBJ) $(LIBRARY)
$(OUT)/c-translate-static: $(OBJ)/tests/c/translate.o $(LIBRARY)
	$(CC) $(LINK) -static -s -o $@ $< $(LIBRARY)
# No more than the shipped translator needs: src/only.h.
$(OUT)/c-translate-small: $(OBJ)/tests/c/translate.o $(CORE_SRC)
	$(MAKE) config=scalar PHASOR_ONLY='q8 unigram layer-norm relu sinusoidal' build/scalar/only/libphasor.a
	$(CC) $(LINK) -static -s -o $@ $< build/scalar/only/libphasor.a

.venv-bench/llama: tools/requirements-bench-llama.txt .venv-bench/ready
	bash tools/bench_llama_cpp.sh .venv-bench
	@touch $@

# A sentence encoder in more lengths, batches and engines than the part "encoder" of bench has.
bench-encoder: .venv-bench/ready all $(OUT)/bench_encoder
	.venv-bench/bin/python tools/bench_encoder.py $(MODEL_DIRECTORY) --build $(OUT) --out docs/performance-encoder.md
