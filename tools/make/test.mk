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

# A Python environment; made again when its requirements change.
.venv/ready: tools/requirements.txt
	$(call make_venv,.venv,$<)
.venv-reference/ready: tools/requirements-reference.txt tools/requirements.txt tools/requirements-models.txt
	$(call make_venv,.venv-reference,$<,tools/requirements-models.txt)
# The newer transformers, in a folder that goes before the environment on the path: tests/reference/test_families_versions.py.
.venv-reference/transformers5/ready: tools/requirements-transformers5.txt .venv-reference/ready
	rm -rf $(@D)
	.venv-reference/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(@D) --requirement $<
	@touch $@
.venv-bench/ready: tools/requirements-bench.txt
	$(call make_venv,.venv-bench,$<)
define make_venv
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; this is $$(python3 --version)" >&2; exit 1; }
	@test ! -L $1 || { echo "$1 is a link to an environment of others: it is made where it lies" >&2; exit 1; }
	python3 -m venv --clear $1
	$1/bin/python -m pip install --quiet --disable-pip-version-check --requirement $2
	$(if $3,$1/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $3)
	@touch $@
endef

# The C programs, compiled as C and linked by the C compiler.
test-c: $(PROGRAMS_C)
	@bash tests/examples.sh $(OUT)

# Generated models, COUNT of them from number FIRST on: `make test-generated COUNT=10000 config=sanitize`.
.PHONY: test-generated
COUNT ?= 10000
FIRST ?= 0
test-generated: $(TESTS)
	GENERATED=$(COUNT) GENERATED_FIRST=$(FIRST) $(RUNNER) $(TESTS) --test-case='generated*'

# What of the program has threads of its own, under the thread sanitizer.
.PHONY: test-threads
THREAD_SRC := src/cli/pool.cpp src/cli/mapping.cpp src/cli/memory.cpp tests/cpp/test_pool.cpp tests/cpp/test_mapping.cpp tests/cpp/main.cpp
build/threads/tests: $(THREAD_SRC) $(wildcard src/cli/*.h) | $(HEADERS)/doctest
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) -std=c++17 -O1 -g -fsanitize=thread -Iinclude -isystem $(HEADERS) $(WARN) -pthread -o $@ $(THREAD_SRC)
test-threads: build/threads/tests
	build/threads/tests

check: all
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
