# Tests: `make test` is a list of stages, each of which is also a target or a program of its own.
# ONLY='unit pytest' runs these stages and no others.
.PHONY: demo test test-machines test-reference test-c test-hashes check

test:
	@bash tools/make/test.sh $(or $(ONLY),quick)

test-machines:
	@bash tools/make/test.sh machines

test-reference:
	@bash tools/make/test.sh reference

# What the converter needs: python3 with its venv, and the packages in .venv.
.PHONY: python
python:
	@bash tools/install.sh python
	@$(MAKE) .venv/ready

# A Python environment: every package with the hash of its file (tools/locks); made again when its lock changes.
VENV := bash tools/make/venv.sh
.venv/ready: tools/locks/requirements.txt
	@$(VENV) .venv $<
# What checks types, in a folder of its own, so that what the converter needs stays small: tools/check.py types.
.venv/types/ready: tools/locks/requirements-types.txt .venv/ready
	@$(VENV) --folder $(@D) .venv $<
.venv-reference/ready: tools/locks/requirements-reference.txt tools/locks/requirements-cuda.txt tools/locks/requirements-models.txt
	@$(VENV) .venv-reference $^
# The newer transformers, in a folder that goes before the environment on the path: tests/reference/test_families_versions.py.
.venv-reference/transformers5/ready: tools/locks/requirements-transformers5.txt .venv-reference/ready
	@$(VENV) --folder $(@D) .venv-reference $<
# The server's packages and those of the examples in Python, in a folder that goes behind the environment on the path: tests/reference/test_serve.py.
.venv-reference/server/ready: tools/locks/requirements-server.txt .venv-reference/ready
	@$(VENV) --folder $(@D) .venv-reference $<
.venv-bench/ready: tools/locks/requirements-bench.txt tools/locks/requirements-cuda.txt tools/locks/requirements-models.txt
	@$(VENV) .venv-bench $^

# The locks of tools/requirements*.txt. LOCKS=NAME for some; UPGRADE=1 takes the newest of what other packages ask for.
.PHONY: lock
lock: build/lock/ready
	@python3 tools/make/lock.py --uv build/lock/bin/uv $(if $(UPGRADE),--upgrade) $(LOCKS)
build/lock/ready: tools/locks/requirements-lock.txt
	@$(VENV) build/lock $<

# The test set of the translators, from the public file of sentence pairs: `make test-set DATA=cmn.txt`.
.PHONY: test-set
TO ?= build/test-set
test-set:
	@PYTHONPATH=tools python3 -m train.split --data "$(or $(DATA),$(error test-set: DATA=cmn.txt, the file of sentence pairs))" --to "$(TO)"

# The C programs, compiled as C and linked by the C compiler.
test-c: $(PROGRAMS_C) $(OLD_CALLER)
	@bash tests/examples.sh $(OUT)
	@$(RUNNER) $(OLD_CALLER) $(OLD_CALLER_MODELS:%=tests/golden/models/tiny-%-f32.phasor)
# One of each stack, with tokenizers.
OLD_CALLER_MODELS := d2l bert chat

# Generated models, COUNT of them from number FIRST on: `make test-generated COUNT=10000 config=sanitize`.
.PHONY: test-generated
COUNT ?= 10000
FIRST ?= 0
test-generated: $(TESTS)
	GENERATED=$(COUNT) GENERATED_FIRST=$(FIRST) $(RUNNER) $(TESTS) --test-case='generated*'

# STEPS steps of sessions that live on, beside an oracle that keeps everything: `make test-long STEPS=10000000 SEED=1 LEVEL=scalar`.
# The hash that it prints depends on STEPS and SEED alone.
.PHONY: test-long
STEPS ?= 10000000
SEED  ?= 1
test-long: $(TESTS)
	LONG_STEPS=$(STEPS) LONG_SEED=$(SEED) $(if $(LEVEL),LONG_LEVEL=$(LEVEL)) $(RUNNER) $(TESTS) --test-case='long run: every result*'

# Many sessions of one model on several threads, the pool and the mapping, under the thread sanitizer; then the shared library in Python's threads. The
# last command of each is a run that breaks the rule of one thread for a session: the sanitizer must see the race in the engine.
.PHONY: test-threads
THREADS_BUILD := config=threads LEVELS='scalar $(filter avx2 neon,$(LEVELS_$(ARCH)))' TEST_FILES='pool mapping threads'
THREADS_PYTHON = env LD_PRELOAD=$$($(CXX) -print-file-name=libtsan.so) TSAN_OPTIONS=halt_on_error=1 .venv/bin/python tests/machines/threads.py build/threads/libphasor.so
test-threads: .venv/ready
	@$(MAKE) $(THREADS_BUILD) build/threads/phasor-tests build/threads/libphasor.so
	build/threads/phasor-tests
	@bash tests/machines/expect_report.sh 'ThreadSanitizer: data race' phasor_step -- \
	  env TSAN_OPTIONS=halt_on_error=1 build/threads/phasor-tests --no-skip --test-case='threads: two threads in one session'
	$(THREADS_PYTHON)
	@bash tests/machines/expect_report.sh 'ThreadSanitizer: data race' phasor_step -- $(THREADS_PYTHON) --race

# The tests under clang's memory sanitizer, which finds reads of bytes that nobody has written: of an arena when its session opens, of the rows in work
# when a call begins, of pages that were given back. The scalar level, where every value is one that the compiler knows.
.PHONY: test-memory
test-memory:
	@bash tools/install.sh fuzz
	@$(MAKE) config=memory CXX=$(CLANG) LEVELS=scalar build/memory/phasor-tests
	MSAN_OPTIONS=intercept_strlen=0 build/memory/phasor-tests
	@bash tests/machines/expect_report.sh 'use-of-uninitialized-value' phasor::forget_work -- \
	  build/memory/phasor-tests --no-skip --test-case='memory: a value of the call before'

check: all
	@[ -e .venv/types/ready ] || $(MAKE) .venv/types/ready
	python3 tools/check.py --build $(OUT)

# How much code there is, in lexical tokens, beside BASE's.
.PHONY: tokens
BASE ?= HEAD
tokens:
	@PYTHONPATH=tools python3 tools/make/tokens.py $(BASE)

# Translates a few sentences: the shortest way from a clone to something that works. No Python.
demo:
	@bash tools/install.sh build
	@$(MAKE) -j$$(nproc 2>/dev/null || echo 2) all
	@test -f "$(MODEL)" || { echo "demo: $(MODEL) is not there" >&2; exit 1; }
	@mkdir -p $(OUT)
	@printf '%s\n' $(DEMO) > $(OUT)/demo.txt
	@$(OUT)/phasor run $(MODEL) < $(OUT)/demo.txt > $(OUT)/demo.out
	@paste $(OUT)/demo.txt $(OUT)/demo.out
DEMO := 我有一只猫。 今天天气很好。 他每天早上六点起床。 我们昨天去了公园。 这本书多少钱？ 我不知道该说什么。 她会说三种语言。
