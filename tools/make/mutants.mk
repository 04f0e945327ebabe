# Mutants: one build in which every bound and comparison of the rooms that check files can be changed at run time, and the fast
# tests against each change (tools/make/mutants.py). ROOM=format for one room, MUTANT='17 18' for these numbers.
.PHONY: mutants
MUTANTS      := build/mutants
MUTANT_CXX   ?= $(CXX)
MUTANT_FLAGS := -std=c++17 $(OPTIMIZE_sanitize) $(NUMERIC) -w -DPHASOR_SCALAR_ONLY
# The tests that are fast and look at these rooms.
MUTANT_TESTS := format generated tokenizer tokenizer_hf chat structs arena ring encoder shortlist limits_* refusals*

mutants:
	@bash tools/install.sh test fuzz
	@python3 tools/make/mutants.py write $(MUTANTS)
	@$(MAKE) $(MUTANTS)/driver
	@python3 tools/make/mutants.py run $(MUTANTS) $(addprefix --room=,$(ROOM)) $(addprefix --mutant=,$(MUTANT))

MUTANT_SRC  := $(PLAIN_SRC) $(call level_sources,scalar) $(addprefix src/cli/host/,pool.cpp memory.cpp mapping.cpp)
MUTANT_TEST := tests/mutants/driver.cpp $(addprefix tests/cpp/,support.cpp heap_counter.cpp) \
               $(wildcard $(MUTANT_TESTS:%=tests/cpp/test_%.cpp)) $(GENERATOR_SRC) $(wildcard tests/cpp/properties/*.cpp)
MUTANT_OBJ  := $(MUTANT_SRC:%.cpp=$(MUTANTS)/obj/%.o) $(MUTANT_TEST:%.cpp=$(MUTANTS)/obj/%.o)
$(MUTANTS)/obj/src/%.o: $(MUTANTS)/src/%.cpp $(MUTANTS)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(MUTANT_CXX) $(MUTANT_FLAGS) -I$(MUTANTS)/include -Itests $(PTHREAD) $(DEPEND) -c $< -o $@
$(MUTANTS)/obj/tests/%.o: tests/%.cpp $(MUTANTS)/flags | $(HEADERS)/doctest
	@mkdir -p $(@D)
	$(call short,CXX)$(MUTANT_CXX) $(MUTANT_FLAGS) -I$(MUTANTS)/include -I$(MUTANTS)/src -Itests/cpp -Itests -isystem $(HEADERS) $(PTHREAD) $(DEPEND) -c $< -o $@
$(MUTANTS)/driver: $(MUTANT_OBJ)
	$(call short,LINK)$(MUTANT_CXX) $(MUTANT_FLAGS) -pthread -o $@ $(MUTANT_OBJ)
$(MUTANTS)/flags: FORCE
	$(call write_if_changed,'$(MUTANT_CXX)' '$(MUTANT_FLAGS)')
-include $(MUTANT_OBJ:.o=.d)
