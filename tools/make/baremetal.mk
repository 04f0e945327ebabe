# Cortex-M images for emulated boards: the core, a weight file in flash, static arenas of the planner's size, and no C library at all
# (tests/baremetal/memory.c has the four functions a compiler may call; libgcc has the arithmetic the processor lacks).
#   vectors    the golden models' test vectors and their hashes      story      a decoder goes on with a text
#   translate  models/zh-en-small.phasor translates (where it fits)
.PHONY: baremetal test-baremetal test-board test-only

BM_BOARDS := mps2-an385 mps2-an386 mps2-an500 mps3-an547 netduinoplus2
BM_CPU_mps2-an385    := -mcpu=cortex-m3 -mfloat-abi=soft
BM_CPU_mps2-an386    := -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard
BM_CPU_mps2-an500    := -mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard
# Without Helium for the compiler: what it would vectorise by itself flushes subnormals.
BM_CPU_mps3-an547    := -mcpu=cortex-m55+nomve -mfloat-abi=hard
BM_CPU_netduinoplus2 := $(BM_CPU_mps2-an386)
# Without a floating-point unit f32 takes ten times as long: two models in f32 and what is quantised.
BM_MODELS_mps2-an385 := $(sort $(wildcard tests/golden/models/tiny-*-q8.phasor tests/golden/models/tiny-rotary-*.phasor tests/golden/models/tiny-lm-f32.phasor))
# A board whose flash and RAM are small: code for size, smaller limits, fewer test vectors.
BM_OPTIMISE_netduinoplus2 := -Os
BM_DEFINE_netduinoplus2   := -DVECTORS_MODEL_KIB=8 -DVECTORS_ARENA_KIB=104 -DVECTORS_COPY_KIB=1
BM_STACK_netduinoplus2    := 8192
BM_MODELS_netduinoplus2   := $(foreach m,alibi-q8 lm-f32 lm-q8 classes-q8 rotary-f16 rotary-q4 rotary-q8 pre-learned-q8,tests/golden/models/tiny-$m.phasor)

# The host's program, with all that it can do, counts and converts.
BM_PROGRAM := build/phasor
ifneq ($(PROGRAM),$(BM_PROGRAM))
$(BM_PROGRAM):
	$(MAKE) all PHASOR_ONLY= TARGET= config=release
endif

BM_PREFIX := arm-none-eabi-
BM_OUT    := build/$(BOARD)$(if $(PHASOR_ONLY),-only)
BM_DIR    := tests/baremetal
BM_EXAMPLE := examples/microcontroller
BM_CPU     = $(or $(BM_CPU_$(BOARD)),$(error BOARD=$(BOARD): expected one of $(BM_BOARDS)))
BM_COMMON  = -mthumb $(BM_CPU) $(or $(BM_OPTIMISE_$(BOARD)),-O3) -DNDEBUG $(NUMERIC) -Iinclude -ffunction-sections -fdata-sections -fno-builtin-printf $(BM_DEFINE_$(BOARD))
BM_CXX     = -std=c++17 $(BM_COMMON) $(WARN) -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit -fno-unwind-tables \
             -fno-asynchronous-unwind-tables -DPHASOR_SCALAR_ONLY $(ONLY_FLAG) -fcallgraph-info=su
BM_C       = -std=c11 $(BM_COMMON) $(WARN) -ffreestanding -fno-tree-loop-distribute-patterns
BM_STACK   = $(or $(BM_STACK_$(BOARD)),32768)
BM_LINK    = -mthumb $(BM_CPU) -nostdlib -nostartfiles -L$(BM_DIR) -L$(BM_EXAMPLE) -T $(BM_DIR)/$(BOARD).ld -Wl,--gc-sections,--no-warn-rwx-segments,--defsym=_stack_least=$(BM_STACK)

# The golden models in f32 and q8, one in every type; more with BM_MODELS='…'.
BM_MODELS ?= $(or $(BM_MODELS_$(BOARD)),$(sort $(wildcard tests/golden/models/tiny-*-f32.phasor tests/golden/models/tiny-*-q8.phasor tests/golden/models/tiny-rotary-*.phasor)))
BM_SRC    := $(filter-out $(filter-out src/kernels/level_scalar.cpp,$(ALL_LEVEL_SRC)),$(wildcard src/*.cpp $(ROOMS:%=src/%/*.cpp)))
BM_OBJ    := $(BM_SRC:%.cpp=$(BM_OUT)/obj/%.o) $(BM_OUT)/obj/$(BM_DIR)/startup.o $(BM_OUT)/obj/$(BM_DIR)/memory.o
BM_IMAGES  = vectors story $(if $(wildcard $(BM_TRANSLATOR)),translate)

# ---------------------------------------------------------------- what the images say
# stories260K where its files lie beside the project, else the project's own language model.
BM_SHARED := ../shared/data/llama2c
BM_PYTHON  = $(firstword $(wildcard .venv/bin/python) python3)
BM_STORY_TYPE = $(or $(BM_STORY_TYPE_$(BOARD)),f32)
BM_STORY_TYPE_mps2-an385    := q8
BM_STORY_TYPE_netduinoplus2 := q8
BM_STORY   = $(if $(wildcard $(BM_SHARED)/stories260K.bin),build/stories260K-$(BM_STORY_TYPE).phasor,models/positions/rotary.phasor)
BM_TRANSLATOR := models/zh-en-small.phasor

BM_FILE_story     = $(BM_STORY)
BM_LIMITS_story   = --context $(or $(BM_CONTEXT_$(BOARD)),256) --chunk 4 --text-bytes 64 --tables rows $(if $(BM_CONTEXT_$(BOARD)),--cache f16)
BM_CONTEXT_netduinoplus2 := 64
BM_NEW_story      = $(or $(BM_NEW_$(BOARD)),160)
BM_NEW_netduinoplus2 := 56
BM_INPUT_story    = $(BM_DIR)/story.txt
BM_PUBLISHED_story = $(if $(findstring stories260K-f32,$(BM_STORY)),--published $(BM_SHARED)/stories260K.expected.txt)
BM_FILE_translate = $(BM_TRANSLATOR)
BM_LIMITS_translate = --source 32 --context 48 --chunk 4 --text-bytes 128 --tables rows --cache f16
BM_NEW_translate  = 47
BM_INPUT_translate = $(BM_DIR)/translate.txt
BM_RAM_netduinoplus2 := 120K
BM_FLASH_netduinoplus2 := 1M
BM_BOARD_FITS      = $(if $(BM_RAM_$(BOARD)),--ram $(BM_RAM_$(BOARD)) --flash $(BM_FLASH_$(BOARD)))

build/stories260K-%.phasor: $(BM_SHARED)/stories260K.bin $(BM_PROGRAM)
	$(BM_PYTHON) tools/convert.py $< -o $@ --type $* --tokenizer $(BM_SHARED)/tok512.model --quiet

# ---------------------------------------------------------------- images
baremetal: $(foreach i,$(BM_IMAGES),$(BM_OUT)/$i.elf)
	@$(BM_PREFIX)size $^

$(BM_OUT)/vectors.elf: $(BM_OUT)/obj/$(BM_DIR)/vectors.o $(BM_OUT)/weights.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld
	$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc

# The model as model.phasor, so that its names are the same in every image; model.h has the limits and what the planner counts for them.
$(BM_OUT)/%.elf: $(BM_OUT)/%/speak.o $(BM_OUT)/%/model.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld
	$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc
define BM_SPEAK
$(BM_OUT)/$1/model.phasor: $$(BM_FILE_$1) $(BM_OUT)/flags
	@mkdir -p $$(@D) && cp $$< $$@
$(BM_OUT)/$1/model.h: $(BM_OUT)/$1/model.phasor $(BM_OUT)/flags $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $$< $$(BM_LIMITS_$1) $$(BM_BOARD_FITS) --emit h > $$@
$(BM_OUT)/$1/model.o: $(BM_OUT)/$1/model.phasor $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $$< --emit asm > $$(@:.o=.S)
	$(BM_PREFIX)gcc -mthumb $$(BM_CPU) -c $$(@:.o=.S) -o $$@
$(BM_OUT)/$1/inputs.h: $$(BM_INPUT_$1) $(BM_OUT)/flags
	@mkdir -p $$(@D)
	{ echo '#define SPEAK_NEW $$(BM_NEW_$1)'; echo '#define SPEAK_IDS 64'; echo '#define SPEAK_INPUTS \'; sed 's/.*/  "&", \\/' $$<; echo; } > $$@
$(BM_OUT)/$1/speak.o: $(BM_DIR)/speak.c $(BM_OUT)/$1/model.h $(BM_OUT)/$1/inputs.h
	$(BM_PREFIX)gcc $$(BM_C) -I$(BM_OUT)/$1 -c $$< -o $$@
endef
$(foreach i,story translate,$(eval $(call BM_SPEAK,$i)))

# A user's own project, as its page says, with the board's semihosting for the serial port.
$(BM_OUT)/example/zh_en.phasor: $(BM_TRANSLATOR)
	@mkdir -p $(@D) && cp $< $@
$(BM_OUT)/example/zh_en.h: $(BM_OUT)/example/zh_en.phasor $(BM_OUT)/flags $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $< $(BM_LIMITS_translate) $(BM_BOARD_FITS) --emit h > $@
$(BM_OUT)/example/zh_en.o: $(BM_OUT)/example/zh_en.phasor $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $< --emit asm > $(@:.o=.S)
	$(BM_PREFIX)gcc -mthumb $(BM_CPU) -c $(@:.o=.S) -o $@
$(BM_OUT)/example/main.o: $(BM_EXAMPLE)/main.c $(BM_OUT)/example/zh_en.h
	$(BM_PREFIX)gcc $(BM_C) -Duart_puts=board_puts -I$(BM_OUT)/example -c $< -o $@
$(BM_OUT)/example.elf: $(BM_OUT)/example/main.o $(BM_OUT)/example/zh_en.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld $(BM_EXAMPLE)/weights.ld
	$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc

$(BM_OUT)/obj/%.o: %.cpp $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(BM_PREFIX)g++ $(BM_CXX) $(DEPEND) -c $< -o $@
$(BM_OUT)/obj/%.o: %.c $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(BM_PREFIX)gcc $(BM_C) $(DEPEND) -c $< -o $@

# The golden models and the table of them, as lines of assembly: name, start, size.
BM_TABLE = '.section .rodata.table,"a"' '.balign 4'
BM_WEIGHTS_S = $(BM_TABLE) '.global board_weights' 'board_weights:' \
  $(foreach m,$(BM_MODELS),'.section .weights,"a"' '.balign 64' '1: .incbin "$m"' '2:' \
    '.section .rodata.names,"a"' '3: .asciz "$(basename $(notdir $m))"' $(BM_TABLE) '.word 3b' '.word 1b' '.word 2b - 1b') \
  $(BM_TABLE) '.word 0' '.word 0' '.word 0'
$(BM_OUT)/weights.o: $(BM_OUT)/weights.S $(BM_MODELS)
	$(BM_PREFIX)gcc -mthumb $(BM_CPU) -c $< -o $@
$(BM_OUT)/weights.S: FORCE
	$(call write_if_changed,$(BM_WEIGHTS_S))
$(BM_OUT)/flags: FORCE
	$(call write_if_changed,'$(BM_CXX)' '$(BM_C)' '$(BM_STORY) $(BM_LIMITS_story) $(BM_LIMITS_translate) $(BM_BOARD_FITS)' '$(BM_NEW_story) $(BM_NEW_translate)')
-include $(BM_OBJ:.o=.d) $(BM_OUT)/obj/$(BM_DIR)/vectors.d

# ---------------------------------------------------------------- tests
BM_CHECK = python3 $(BM_DIR)/check_image.py $(BOARD) $(BM_OUT)/$i.elf --program $(BM_PROGRAM) --model $(BM_OUT)/$i/model.phasor \
  --inputs $(BM_INPUT_$i) --header $(BM_OUT)/$i/model.h --new $(BM_NEW_$i) $(BM_PUBLISHED_$i) &&
test-board: baremetal
	python3 tools/stack.py $(BM_OUT)/obj --limit src/cli/board.h
	python3 tests/cross/hash_check.py board $(BOARD) $(BM_OUT)/vectors.elf
	$(foreach i,$(filter-out vectors,$(BM_IMAGES)),$(BM_CHECK)) true

# The engine with no more than a translator needs translates the same, and refuses a model that needs what is left out.
test-only: $(BM_OUT)/translate.elf $(BM_OUT)/story.elf $(BM_OUT)/example.elf
	$(foreach i,translate,$(BM_CHECK)) true
	python3 $(BM_DIR)/check_image.py $(BOARD) $(BM_OUT)/example.elf --plain --program $(BM_PROGRAM) --model $(BM_OUT)/example/zh_en.phasor \
	  --inputs $(BM_DIR)/example.txt --header $(BM_OUT)/example/zh_en.h --new $(BM_NEW_translate)
	python3 $(BM_DIR)/check_image.py $(BOARD) $(BM_OUT)/story.elf --refused

# All boards; one with `make test-board BOARD=…`.
test-baremetal: all
	@for board in $(BM_BOARDS); do $(MAKE) test-board BOARD=$$board || exit 1; done
	@$(MAKE) test-only BOARD=netduinoplus2 PHASOR_ONLY='$(SIZE_ONLY_translator)'
