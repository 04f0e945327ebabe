# Which branches of what steers by foreign bytes the C++ tests take: clang's counters in the core but its kernels, and llvm-cov's report of them.
.PHONY: coverage
COV_LLVM  ?= 19
COV_CXX   ?= clang++-$(COV_LLVM)
COV_OUT   := build/coverage
COV_ROOMS := format text text/chat quantize model decode api
COV_SEEN  := $(wildcard $(COV_ROOMS:%=src/%/*.cpp)) src/status.cpp src/runtime/plan.cpp src/runtime/state.cpp src/runtime/session.cpp
COV_CORE  := $(filter-out src/kernels/% $(COV_SEEN),$(PLAIN_SRC))
COV_KERNELS := $(filter $(OBJ)/src/kernels/%,$(CORE_OBJ))
# What is not for kernels and threads alone; and what of the program the tests are linked with.
COV_TESTS := $(filter-out tests/cpp/test_kernels% $(patsubst %,tests/cpp/test_%.cpp,functions exponential mapping peak pool sentences),$(TEST_SRC)) \
             src/cli/host/pool.cpp src/cli/host/memory.cpp src/cli/host/mapping.cpp
COV_FLAGS := -std=c++17 -O2 -DNDEBUG $(NUMERIC) -Iinclude $(WARN) -fno-exceptions -fno-rtti
# Some tests have threads: counts of them that are not atomic are lost, and a direction seems taken that is not.
COV_SEE   := -fprofile-instr-generate -fprofile-update=atomic -fcoverage-mapping
COV_TEST_FLAGS := -std=c++17 -O1 -DNDEBUG $(NUMERIC) -Iinclude -Wno-deprecated-declarations -Isrc -Itests/cpp -isystem $(HEADERS) $(PTHREAD)
COV_OBJ   := $(COV_SEEN:%.cpp=$(COV_OUT)/seen/%.o) $(COV_CORE:%.cpp=$(COV_OUT)/core/%.o) $(COV_TESTS:%.cpp=$(COV_OUT)/obj/%.o)

# Long ones that take no branch that the others do not; damaged bytes would hide that a check has no test of its own.
COV_WITHOUT := '*every level*,rule 1.8*,*no damaged byte*,*beam search is*,*one beam is*'

coverage:
	@bash tools/install.sh coverage
	@$(MAKE) $(COV_OUT)/tests.json
	@python3 tools/make/coverage.py $(COV_OUT)

$(COV_OUT)/tests: $(COV_OBJ) $(COV_KERNELS)
	$(call short,LINK)$(COV_CXX) -fprofile-instr-generate $(PTHREAD) -o $@ $^
$(COV_OUT)/tests.profdata: $(COV_OUT)/tests
	GENERATED=500 LLVM_PROFILE_FILE=$(COV_OUT)/tests.profraw $(COV_OUT)/tests --test-case-exclude=$(COV_WITHOUT)
	llvm-profdata-$(COV_LLVM) merge -o $@ $(COV_OUT)/tests.profraw
$(COV_OUT)/tests.json: $(COV_OUT)/tests.profdata
	llvm-cov-$(COV_LLVM) show --show-branches=count --use-color=0 --instr-profile=$< $(COV_OUT)/tests > $(COV_OUT)/tests.txt
	llvm-cov-$(COV_LLVM) export --instr-profile=$< $(COV_OUT)/tests > $@
$(COV_OUT)/seen/%.o: %.cpp $(COV_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(COV_CXX) $(COV_FLAGS) $(COV_SEE) $(DEPEND) -c $< -o $@
$(COV_OUT)/core/%.o: %.cpp $(COV_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(COV_CXX) $(COV_FLAGS) $(DEPEND) -c $< -o $@
$(COV_OUT)/obj/%.o: %.cpp $(COV_OUT)/flags | $(HEADERS)/doctest
	@mkdir -p $(@D)
	$(call short,CXX)$(COV_CXX) $(COV_TEST_FLAGS) $(DEPEND) -c $< -o $@
$(COV_OUT)/flags: FORCE
	$(call write_if_changed,'$(COV_CXX)' '$(COV_FLAGS) $(COV_SEE)' '$(COV_TEST_FLAGS)')
-include $(COV_OBJ:.o=.d)
