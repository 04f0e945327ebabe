# libFuzzer over the file reader, with the golden models as seeds. What it finds is written to build/fuzz/.
.PHONY: fuzz
FUZZ_CXX     ?= clang++-19
FUZZ_SECONDS ?= 60
FUZZ_OUT     := build/fuzz

fuzz:
	@bash tools/install.sh fuzz
	@$(MAKE) $(FUZZ_OUT)/open
	@mkdir -p $(FUZZ_OUT)/corpus
	$(FUZZ_OUT)/open -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -rss_limit_mb=2048 -timeout=10 -artifact_prefix=$(FUZZ_OUT)/ \
	  -print_final_stats=1 $(FUZZ_OUT)/corpus tests/golden/models tests/golden/arena

FUZZ_FLAGS := -std=c++17 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
              $(NUMERIC) -Iinclude -Isrc $(WARN) -DPHASOR_SCALAR_ONLY $(RED_ZONES)
FUZZ_SRC   := $(PLAIN_SRC) $(call level_sources,scalar) tests/fuzz/open.cpp
FUZZ_OBJ   := $(FUZZ_SRC:%.cpp=$(FUZZ_OUT)/obj/%.o)
$(FUZZ_OUT)/obj/%.o: %.cpp $(FUZZ_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(FUZZ_CXX) $(FUZZ_FLAGS) $(DEPEND) -c $< -o $@
$(FUZZ_OUT)/open: $(FUZZ_OBJ)
	$(call short,LINK)$(FUZZ_CXX) -fsanitize=fuzzer,address,undefined -o $@ $(FUZZ_OBJ)
$(FUZZ_OUT)/flags: FORCE
	$(call write_if_changed,'$(FUZZ_CXX)' '$(FUZZ_FLAGS)')
-include $(FUZZ_OBJ:.o=.d)
