# Cortex-M images for emulated boards: the core, a weight file in flash, static arenas of the planner's size, and no C library at all
# (tests/machines/baremetal/memory.c has the four functions a compiler may call; libgcc has the arithmetic the processor lacks).
#   vectors    the golden models' test vectors and their hashes      story      a decoder goes on with a text
#   translate  models/zh-en-small.phasor translates (where it fits)
#   marian     a MarianMT with random weights (make_marian.py) and two beams, on the Cortex-M7
.PHONY: baremetal test-baremetal test-board test-only test-board-level bench-board bench-board-write

BM_BOARDS := mps2-an385 mps2-an386 mps2-an500 mps3-an547 netduinoplus2
BM_CORE_mps2-an385    := cortex-m3
BM_CORE_mps2-an386    := cortex-m4
BM_CORE_mps2-an500    := cortex-m7
BM_CORE_mps3-an547    := cortex-m55
BM_CORE_netduinoplus2 := cortex-m4
# On these the kernels' tests run.
BM_LEVEL_BOARDS := mps2-an500 mps3-an547
# A board whose flash and RAM are small: code for size, smaller limits, fewer test vectors.
BM_OPTIMIZE_netduinoplus2 := -Os
BM_DEFINE_netduinoplus2    = -DVECTORS_MODEL_KIB=8 -DVECTORS_ARENA_KIB=$(BM_ARENA_netduinoplus2) -DVECTORS_COPY_KIB=1
BM_ARENA_netduinoplus2    := 108
BM_STACK_netduinoplus2    := 8192
# All golden models do not fit its flash at once: an image for each of these groups.
# The models of the first half and of the second, where all together do not fit into the board's flash for weights.
BM_PARTS_mps3-an547 := first second
BM_PARTS_netduinoplus2    := 1 2 3 4 5 6 7 8 9 10 11 12
BM_PART_1 := alibi three-way-f32 post-sin-f32
BM_PART_2 := bert gptj-f16
BM_PART_3 := chat clipped d2l
BM_PART_4 := neox olmo2 opt classes-f32 gptj-q8r
BM_PART_5 := post-sin-f16 post-sin-bf16 post-sin-q8 post-sin-q8r post-sin-q8rh
BM_PART_6 := gptj-f32 gptj-bf16 relative lm
BM_PART_7 := rotary-f32 rotary-f16 rotary-bf16 rotary-q8 rotary-q4 rotary-q8rh t5 three-way-lm
BM_PART_8 := gptj-inputs16 additive
BM_PART_9 := disentangled modernbert pre-learned
BM_PART_10 := lfm2 bitnet gptj-rotated
BM_PART_11 := three-way-q8 gptj-q8rh post-sin-q4 rotary-q4k gptj-q4 gptj-q4x gptj-q3 gptj-q6 gptj-q4t gptj-q4k gptj-q4m gptj-q2 gptj-q2w gptj-q1 gptj-q2r classes-q8
BM_PART_12 := gptj-q8 albert rotary-rotated gptj-q5m gptj-q5k rotary-q5m
# tiny-gemma4's block has 11 KiB: it runs on the other boards.

# The host's program, with all that it can do, counts and converts.
BM_PROGRAM := build/phasor
ifneq ($(PROGRAM),$(BM_PROGRAM))
$(BM_PROGRAM):
	$(MAKE) all PHASOR_ONLY= TARGET= config=release
endif

BM_PREFIX := arm-none-eabi-
BM_OUT    := build/$(BOARD)$(if $(PHASOR_ONLY),-only)
BM_DIR    := tests/machines/baremetal
BM_EXAMPLE := examples/microcontroller
BM_CPU     = $(or $(CPU_$(BM_CORE_$(BOARD))),$(error BOARD=$(BOARD): expected one of $(BM_BOARDS)))
BM_COMMON  = -mthumb $(BM_CPU) $(or $(BM_OPTIMIZE_$(BOARD)),$(CPU_OPTIMIZE_$(BM_CORE_$(BOARD))),-O3) -DNDEBUG $(NUMERIC) -Iinclude $(SECTIONS) -fno-builtin-printf $(BM_DEFINE_$(BOARD))
BM_CXX     = $(LANGUAGE) $(BM_COMMON) $(WARN) $(BARE_METAL) $(if $(BM_LEVEL),,-DPHASOR_SCALAR_ONLY) $(ONLY_FLAG) -fcallgraph-info=su
BM_C       = -std=c11 $(BM_COMMON) $(WARN) -ffreestanding -fno-tree-loop-distribute-patterns
BM_STACK   = $(or $(BM_STACK_$(BOARD)),32768)
BM_LINK    = -mthumb $(BM_CPU) -nostdlib -nostartfiles -L$(BM_DIR) -L$(BM_EXAMPLE) -T $(BM_DIR)/$(BOARD).ld -Wl,--gc-sections,--no-warn-rwx-segments,--defsym=_stack_least=$(BM_STACK)

# Every golden model. On a processor without a floating-point unit they take ten times as long: there one in TEST_SHARE (1, as without it: all), and as
# many commits in a row, or TEST_SEEDs, have all. BM_MODELS='…' for others.
BM_TINY   := tests/golden/models/tiny
BM_GOLDEN := $(sort $(wildcard $(BM_TINY)-*.phasor))
BM_SLOW   := mps2-an385
BM_DRAWN  := awk -v of=$${TEST_SHARE:-1} -v seed=$${TEST_SEED:-0} '(NR + seed) % of == 0'
BM_MODELS ?= $(if $(filter $(BM_SLOW),$(BOARD)),$(shell printf '%s\n' $(BM_GOLDEN) | $(BM_DRAWN)),$(BM_GOLDEN))
BM_PARTS   = $(or $(BM_PARTS_$(BOARD)),all)
BM_FIRST    = $(wordlist 1,60,$(BM_MODELS))
BM_SECOND   = $(filter-out $(BM_FIRST),$(BM_MODELS))
bm_models  = $(if $(filter all,$1),$(BM_MODELS),$(if $(filter first,$1),$(BM_FIRST),$(if $(filter second,$1),$(BM_SECOND),$(filter $(foreach f,$(BM_PART_$1),$(BM_TINY)-$f.phasor $(BM_TINY)-$f-%.phasor),$(BM_MODELS)))))
BM_LEVEL   = $(CPU_LEVEL_$(BM_CORE_$(BOARD)))
BM_LEVEL_FLAGS = $(if $(filter level_$(BM_LEVEL).o,$(@F)),$(LEVEL_FLAGS_$(BM_LEVEL)))
BM_SRC    := $(PLAIN_SRC) $(call level_sources,scalar $(BM_LEVEL))
BM_OBJ    := $(BM_SRC:%.cpp=$(BM_OUT)/obj/%.o) $(BM_OUT)/obj/$(BM_DIR)/startup.o $(BM_OUT)/obj/$(BM_DIR)/memory.o
BM_VECTORS = $(BM_PARTS:%=vectors-%)
BM_IMAGES  = $(BM_VECTORS) story $(if $(wildcard $(BM_TRANSLATOR)),$(BM_TRANSLATE)) $(if $(PHASOR_ONLY),,$(BM_BEAMS_$(BOARD)))
# The whole engine and the translator's weights are larger than 1 MiB: there the engine has what it needs (test-only).
BM_TRANSLATE = $(if $(PHASOR_ONLY)$(filter-out netduinoplus2,$(BOARD)),translate)
BM_BEAMS_mps2-an500 := marian

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
BM_NEW_mps2-an385    := 48
BM_INPUT_story    = $(BM_DIR)/story.txt
BM_PUBLISHED_story = $(if $(findstring stories260K-f32,$(BM_STORY)),--published $(BM_SHARED)/stories260K.expected.txt)
BM_FILE_translate = $(BM_TRANSLATOR)
BM_LIMITS_translate = --source 32 --context 48 --chunk 4 --text-bytes 128 --tables rows --cache f16
BM_NEW_translate  = 47
BM_INPUT_translate = $(BM_DIR)/translate.txt
BM_FILE_marian = $(BM_DIR)/marian.phasor
BM_LIMITS_marian = --source 14 --context 14 --chunk 4 --text-bytes 64 --tables rows --beam 2
BM_NEW_marian  = 14
BM_INPUT_marian = $(BM_DIR)/marian.txt
BM_RAM_netduinoplus2 := 128K
BM_FLASH_netduinoplus2 := 1M
BM_BOARD_FITS      = $(if $(BM_RAM_$(BOARD)),--ram $(BM_RAM_$(BOARD)) --flash $(BM_FLASH_$(BOARD)))

build/stories260K-%.phasor: $(BM_SHARED)/stories260K.bin $(BM_PROGRAM)
	$(BM_PYTHON) tools/convert.py $< -o $@ --type $* --tokenizer $(BM_SHARED)/tok512.model --quiet

# ---------------------------------------------------------------- images
baremetal: $(foreach i,$(BM_IMAGES),$(BM_OUT)/$i.elf)
	@$(BM_PREFIX)size $^

.SECONDARY: $(BM_OUT)/obj/$(BM_DIR)/vectors.o $(foreach p,$(BM_PARTS),$(BM_OUT)/weights-$p.o $(BM_OUT)/weights-$p.S)
$(BM_OUT)/vectors-%.elf: $(BM_OUT)/obj/$(BM_DIR)/vectors.o $(BM_OUT)/weights-%.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld
	$(call short,LINK)$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc

# The model as model.phasor, so that its names are the same in every image; model.h has the limits and what the planner counts for them.
$(BM_OUT)/%.elf: $(BM_OUT)/%/speak.o $(BM_OUT)/%/model.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld
	$(call short,LINK)$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc
define BM_SPEAK
$(BM_OUT)/$1/model.phasor: $$(BM_FILE_$1) $(BM_OUT)/flags
	@mkdir -p $$(@D) && cp $$< $$@
$(BM_OUT)/$1/model.h: $(BM_OUT)/$1/model.phasor $(BM_OUT)/flags $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $$< $$(BM_LIMITS_$1) $$(BM_BOARD_FITS) --emit h > $$@
$(BM_OUT)/$1/model.o: $(BM_OUT)/$1/model.phasor $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $$< --emit asm > $$(@:.o=.S)
	$$(call short,CC)$(BM_PREFIX)gcc -mthumb $$(BM_CPU) -c $$(@:.o=.S) -o $$@
$(BM_OUT)/$1/inputs.h: $$(BM_INPUT_$1) $(BM_OUT)/flags
	@mkdir -p $$(@D)
	{ echo '#define SPEAK_NEW $$(BM_NEW_$1)'; echo '#define SPEAK_IDS 64'; echo '#define SPEAK_INPUTS \'; sed 's/.*/  "&", \\/' $$<; echo; } > $$@
$(BM_OUT)/$1/speak.o: $(BM_DIR)/speak.c $(BM_OUT)/$1/model.h $(BM_OUT)/$1/inputs.h
	$$(call short,CC)$(BM_PREFIX)gcc $$(BM_C) -I$(BM_OUT)/$1 -c $$< -o $$@
endef
$(foreach i,story translate marian,$(eval $(call BM_SPEAK,$i)))

# Story models with random weights: what a token takes (tests/machines/baremetal/tokens.c), of q2r beside q8, and with per-layer embeddings
# beside none.
BM_COUNTED := q2r q8 tables plain
BM_LIMITS_counted = --context 64 --chunk 1 --tables rows --cache f16
build/counted-%.phasor: $(BM_DIR)/make_counted.py
	$(BM_PYTHON) $< $@ $*
$(BM_OUT)/counted-%/model.phasor: build/counted-%.phasor
	@mkdir -p $(@D) && cp $< $@
$(BM_OUT)/counted-%/model.h: $(BM_OUT)/counted-%/model.phasor $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $< $(BM_LIMITS_counted) --emit h > $@
$(BM_OUT)/counted-%/model.o: $(BM_OUT)/counted-%/model.phasor $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $< --emit asm > $(@:.o=.S)
	$(call short,CC)$(BM_PREFIX)gcc -mthumb $(BM_CPU) -c $(@:.o=.S) -o $@
$(BM_OUT)/counted-%/tokens.o: $(BM_DIR)/tokens.c $(BM_OUT)/counted-%/model.h $(BM_OUT)/flags
	$(call short,CC)$(BM_PREFIX)gcc $(BM_C) -I$(@D) -c $< -o $@
$(BM_OUT)/counted-%.elf: $(BM_OUT)/counted-%/tokens.o $(BM_OUT)/counted-%/model.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld
	$(call short,LINK)$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc
.PHONY: bench-ternary bench-per-layer
.SECONDARY: $(BM_COUNTED:%=build/counted-%.phasor) $(foreach t,$(BM_COUNTED),$(BM_OUT)/counted-$t/model.phasor $(BM_OUT)/counted-$t/model.h $(BM_OUT)/counted-$t/model.o $(BM_OUT)/counted-$t/tokens.o)
bench-ternary: BM_PAIR := q2r q8
bench-ternary: $(BM_OUT)/counted-q2r.elf $(BM_OUT)/counted-q8.elf
bench-per-layer: BM_PAIR := tables plain
bench-per-layer: $(BM_OUT)/counted-tables.elf $(BM_OUT)/counted-plain.elf
bench-ternary bench-per-layer: $(COUNT_PLUGIN)
	@python3 $(BM_DIR)/count_tokens.py --program $(BM_PROGRAM) $(BOARD) $(COUNT_PLUGIN) $(foreach t,$(BM_PAIR),$t=$(BM_OUT)/counted-$t.elf:$(BM_OUT)/counted-$t/model.phasor)

# A user's own project, as its page says, with the board's semihosting for the serial port.
$(BM_OUT)/example/zh_en.phasor: $(BM_TRANSLATOR)
	@mkdir -p $(@D) && cp $< $@
$(BM_OUT)/example/zh_en.h: $(BM_OUT)/example/zh_en.phasor $(BM_OUT)/flags $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $< $(BM_LIMITS_translate) $(BM_BOARD_FITS) --emit h > $@
$(BM_OUT)/example/zh_en.o: $(BM_OUT)/example/zh_en.phasor $(BM_PROGRAM)
	$(BM_PROGRAM) inspect $< --emit asm > $(@:.o=.S)
	$(call short,CC)$(BM_PREFIX)gcc -mthumb $(BM_CPU) -c $(@:.o=.S) -o $@
$(BM_OUT)/example/main.o: $(BM_EXAMPLE)/main.c $(BM_OUT)/example/zh_en.h
	$(call short,CC)$(BM_PREFIX)gcc $(BM_C) -Duart_puts=board_puts -I$(BM_OUT)/example -c $< -o $@
$(BM_OUT)/example.elf: $(BM_OUT)/example/main.o $(BM_OUT)/example/zh_en.o $(BM_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld $(BM_EXAMPLE)/weights.ld
	$(call short,LINK)$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(filter %.o,$^) -lgcc

$(BM_OUT)/obj/%.o: %.cpp $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(BM_PREFIX)g++ $(BM_CXX) $(BM_LEVEL_FLAGS) $(DEPEND) -c $< -o $@
$(BM_OUT)/obj/%.o: %.c $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CC)$(BM_PREFIX)gcc $(BM_C) $(DEPEND) -c $< -o $@

# The golden models and the table of them, as lines of assembly: name, start, size.
BM_TABLE = '.section .rodata.table,"a"' '.balign 4'
BM_WEIGHTS_S = $(BM_TABLE) '.global board_weights' 'board_weights:' \
  $(foreach m,$(call bm_models,$*),'.section .weights,"a"' '.balign 64' '1: .incbin "$m"' '2:' \
    '.section .rodata.names,"a"' '3: .asciz "$(basename $(notdir $m))"' $(BM_TABLE) '.word 3b' '.word 1b' '.word 2b - 1b') \
  $(BM_TABLE) '.word 0' '.word 0' '.word 0'
$(BM_OUT)/weights-%.o: $(BM_OUT)/weights-%.S $(BM_GOLDEN)
	$(call short,CC)$(BM_PREFIX)gcc -mthumb $(BM_CPU) -c $< -o $@
$(BM_OUT)/weights-%.S: FORCE
	$(call write_if_changed,$(BM_WEIGHTS_S))
$(BM_OUT)/flags: FORCE
	$(call write_if_changed,'$(BM_CXX)' '$(BM_C)' '$(LEVEL_FLAGS_$(BM_LEVEL))' '$(BM_HOSTED_CXX)' '$(BM_STORY) $(BM_LIMITS_story) $(BM_LIMITS_translate) $(BM_BOARD_FITS)' '$(BM_NEW_story) $(BM_NEW_translate)')
-include $(BM_OBJ:.o=.d) $(BM_OUT)/obj/$(BM_DIR)/vectors.d

# ---------------------------------------------------------------- a board's own level
comma_list = $(subst $(empty) $(empty),$(comma),$(strip $1))
# The host's tests of the kernels, with newlib, on a board that has a vector level: against the scalar level, and against the table of hashes. And the
# instructions of each of its kernels.
BM_HOSTED   := build/$(BOARD)/hosted
BM_HOSTED_CXX = -std=c++17 -mthumb $(BM_CPU) -O1 -DNDEBUG $(NUMERIC) -Isrc -Iinclude -Itests/cpp -isystem $(HEADERS) $(WARN) -DDOCTEST_CONFIG_NO_MULTITHREADING \
                -DDOCTEST_CONFIG_NO_POSIX_SIGNALS -DDOCTEST_CONFIG_COLORS_NONE -Wno-psabi
BM_HOSTED_LINK = --specs=rdimon.specs -mthumb $(BM_CPU) -nostartfiles -T $(BM_DIR)/hosted.ld -Wl,--gc-sections,--no-warn-rwx-segments
BM_TESTS    := main tile_level test_kernels test_kernels_whole test_kernels_minima test_kernels_fine test_kernels_coded test_kernels_inputs16 test_kernels_hashes test_kernels_rows test_kernels_scores test_functions test_peak
BM_HOSTED_KERNELS := $(filter %/status.o,$(BM_OBJ)) $(filter $(BM_OUT)/obj/src/kernels/%,$(BM_OBJ)) $(BM_HOSTED)/startup.o
$(TEST_TWIN:tests/cpp/%.cpp=$(BM_HOSTED)/%.o): private BM_HOSTED_CXX += -Og
$(BM_HOSTED)/%.o: tests/cpp/%.cpp $(BM_OUT)/flags | $(HEADERS)/doctest
	@mkdir -p $(@D)
	$(call short,CXX)$(BM_PREFIX)g++ $(BM_HOSTED_CXX) $(DEPEND) -c $< -o $@
$(BM_HOSTED)/startup.o: $(BM_DIR)/startup.c $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(call short,CC)$(BM_PREFIX)gcc $(BM_C) -Dmain=hosted_main -c $< -o $@
# A sample of the tests' sweeps, as elsewhere (tests/cpp/share.h): a board has no environment, so the program brings it.
$(BM_HOSTED)/%-start.o: $(BM_DIR)/hosted.c $(BM_OUT)/flags $(BM_HOSTED)/drawn
	@mkdir -p $(@D)
	$(call short,CC)$(BM_PREFIX)gcc $(BM_C) -DHOSTED_ARGUMENTS='$(HOSTED_ARGUMENTS_$*)' -DHOSTED_SHARE='"$(BM_SHARE)"' -DHOSTED_SEED='"$(BM_SEED)"' -c $< -o $@
BM_SHARE := $(or $(TEST_SHARE),1)
BM_SEED  := $(or $(TEST_SEED),0)
$(BM_HOSTED)/drawn: FORCE
	$(call write_if_changed,'$(BM_SHARE) $(BM_SEED)')
HOSTED_ARGUMENTS_tests = "--test-case-exclude=$(subst ',,$(SWEEPS))",
$(BM_HOSTED)/tests.elf: $(BM_TESTS:%=$(BM_HOSTED)/%.o) $(BM_HOSTED)/tests-start.o $(BM_HOSTED_KERNELS) $(BM_DIR)/hosted.ld
	$(call short,LINK)$(BM_PREFIX)g++ $(BM_HOSTED_LINK) -o $@ $(filter %.o,$^)
$(BM_HOSTED)/count_kernels.elf: $(BM_HOSTED)/count_kernels.o $(BM_HOSTED)/count_kernels-start.o $(BM_HOSTED_KERNELS) $(BM_DIR)/hosted.ld
	$(call short,LINK)$(BM_PREFIX)g++ $(BM_HOSTED_LINK) -o $@ $(filter %.o,$^)
BM_QEMU = qemu-system-arm -M $(BOARD) -nographic -monitor none -serial none -semihosting-config enable=on$(comma)target=native -kernel
test-board-level: $(BM_HOSTED)/tests.elf
	$(BM_QEMU) $<
BM_COUNT = python3 tests/machines/cross/instructions.py $1 $(BOARD) '$(BM_PREFIX)g++ $(shell $(BM_PREFIX)g++ -dumpfullversion)' $(COUNT_PLUGIN)$(comma)bare-metal=on \
  $(BM_HOSTED)/count_kernels.elf -- $(BM_QEMU)
bench-board: $(BM_HOSTED)/count_kernels.elf $(COUNT_PLUGIN)
	@$(call BM_COUNT)
bench-board-write: $(BM_HOSTED)/count_kernels.elf $(COUNT_PLUGIN)
	@$(call BM_COUNT,--write)
-include $(BM_TESTS:%=$(BM_HOSTED)/%.d) $(BM_HOSTED)/count_kernels.d

# ---------------------------------------------------------------- tests
BM_CHECK = python3 $(BM_DIR)/check_image.py $(BOARD) $(BM_OUT)/$i.elf --program $(BM_PROGRAM) --model $(BM_OUT)/$i/model.phasor \
  --inputs $(BM_INPUT_$i) --header $(BM_OUT)/$i/model.h --new $(BM_NEW_$i) $(BM_PUBLISHED_$i) &&
test-board: baremetal
	PYTHONPATH=tools python3 tools/make/stack.py $(BM_OUT)/obj --limit src/cli/engine/board.h
	$(foreach p,$(BM_PARTS),python3 tests/machines/cross/hash_check.py board $(BOARD) $(BM_OUT)/vectors-$p.elf --levels $(call comma_list,$(BM_LEVEL) scalar) \
	  --stack src/cli/engine/board.h $(if $(BM_ARENA_$(BOARD)),--arena-kib $(BM_ARENA_$(BOARD))) $(basename $(notdir $(call bm_models,$p))) &&) true
	$(foreach i,$(filter-out $(BM_VECTORS),$(BM_IMAGES)),$(BM_CHECK)) true

# The engine with no more than a translator needs translates the same, and refuses a model that needs what is left out.
test-only: $(BM_OUT)/translate.elf $(BM_OUT)/story.elf $(BM_OUT)/example.elf
	$(foreach i,translate,$(BM_CHECK)) true
	python3 $(BM_DIR)/check_image.py $(BOARD) $(BM_OUT)/example.elf --plain --program $(BM_PROGRAM) --model $(BM_OUT)/example/zh_en.phasor \
	  --inputs $(BM_DIR)/example.txt --header $(BM_OUT)/example/zh_en.h --new $(BM_NEW_translate)
	python3 $(BM_DIR)/check_image.py $(BOARD) $(BM_OUT)/story.elf --refused

# All boards; one with `make test-board BOARD=…`.
test-baremetal: all
	@for board in $(BM_BOARDS); do $(MAKE) test-board BOARD=$$board || exit 1; done
	@for board in $(BM_LEVEL_BOARDS); do $(MAKE) test-board-level bench-board BOARD=$$board || exit 1; done
	@$(MAKE) test-only BOARD=netduinoplus2 PHASOR_ONLY='$(SIZE_ONLY_translator)'
