# Code size: the engine at -Os for a Cortex-M4F, and for a Cortex-M55 with its Helium level, linked with a program that opens a model, encodes, generates and turns ids into text.
.PHONY: size

# What is measured, against the record in tools/make/size.txt: everything; a translator's engine; a language model's; a translator's for a Cortex-M55.
SIZE_CONFIGS := whole translator story translator-m55
SIZE_ONLY_whole      :=
SIZE_ONLY_translator := q8 unigram layer-norm relu sinusoidal cache-f16
SIZE_ONLY_translator-m55  := $(SIZE_ONLY_translator)
SIZE_BOARD_translator-m55 := mps3-an547
SIZE_ONLY_story      := q8 sentencepiece-bpe rms-norm silu rotary

SIZE_OUT = build/size$(if $(SIZE_NAME),/$(SIZE_NAME))
size: $(PROGRAM)
	@$(foreach n,$(SIZE_CONFIGS),$(MAKE) -s build/size/$n/engine.elf SIZE_NAME=$n BOARD=$(or $(SIZE_BOARD_$n),mps2-an386) &&) true
	@PYTHONPATH=tools python3 tools/make/size.py tools/make/size.txt $(SIZE_CONFIGS:%=build/size/%)

ifneq ($(SIZE_NAME),)
SIZE_CPU  := -mthumb $(BM_CPU)
SIZE_FLAGS := $(SIZE_CPU) -Os -DNDEBUG $(NUMERIC) -Iinclude $(SECTIONS)
SIZE_CXX  := $(LANGUAGE) $(SIZE_FLAGS) $(WARN) $(BARE_METAL) $(if $(BM_LEVEL),,-DPHASOR_SCALAR_ONLY) $(call only_flag,$(SIZE_ONLY_$(SIZE_NAME)))
SIZE_OBJ  := $(BM_SRC:%.cpp=$(SIZE_OUT)/%.o)

$(SIZE_OUT)/engine.elf: $(SIZE_OBJ) $(SIZE_OUT)/$(BM_DIR)/engine.o $(SIZE_OUT)/$(BM_DIR)/memory.o
	$(call short,LINK)$(BM_PREFIX)g++ $(SIZE_CPU) -nostdlib -nostartfiles -Wl,--gc-sections,-e,Reset_Handler,-Map=$(SIZE_OUT)/engine.map -o $@ $^ -lgcc
$(SIZE_OUT)/%.o: %.cpp $(SIZE_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(BM_PREFIX)g++ $(SIZE_CXX) $(BM_LEVEL_FLAGS) $(DEPEND) -c $< -o $@
$(SIZE_OUT)/%.o: %.c $(SIZE_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CC)$(BM_PREFIX)gcc -std=c11 $(SIZE_FLAGS) $(WARN) -ffreestanding -fno-tree-loop-distribute-patterns -c $< -o $@
$(SIZE_OUT)/flags: FORCE
	$(call write_if_changed,'$(SIZE_CXX)' '$(LEVEL_FLAGS_$(BM_LEVEL))')
-include $(SIZE_OBJ:.o=.d)
endif
