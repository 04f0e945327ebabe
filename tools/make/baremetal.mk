# Cortex-M images for emulated boards: the core, scalar kernels, weight files in flash, static arenas, and no C library at all
# (tests/baremetal/memory.c has the four functions a compiler may call; libgcc has the arithmetic the processor lacks).
.PHONY: baremetal test-baremetal

BM_CPU_mps2-an500 := -mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard
BM_CPU_mps2-an386 := -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard
BM_CPU_mps2-an385 := -mcpu=cortex-m3 -mfloat-abi=soft

BM_PREFIX := arm-none-eabi-
BM_OUT    := build/$(BOARD)
BM_DIR    := tests/baremetal
BM_CPU     = $(or $(BM_CPU_$(BOARD)),$(error BOARD=$(BOARD): expected $(patsubst BM_CPU_%,%,$(filter BM_CPU_%,$(.VARIABLES)))))
BM_COMMON  = -mthumb $(BM_CPU) -O3 -DNDEBUG $(NUMERIC) -Iinclude -ffunction-sections -fdata-sections -fno-builtin-printf
BM_CXX     = -std=c++17 $(BM_COMMON) $(WARN) -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit -fno-unwind-tables \
             -fno-asynchronous-unwind-tables -DPHASOR_SCALAR_ONLY
BM_C       = -std=c11 $(BM_COMMON) $(WARN) -ffreestanding -fno-tree-loop-distribute-patterns
BM_LINK    = -mthumb $(BM_CPU) -nostdlib -nostartfiles -L$(BM_DIR) -T $(BM_DIR)/$(BOARD).ld -Wl,--gc-sections,--no-warn-rwx-segments

# The golden models in f32 and q8, one in every type; more with BM_MODELS='…'.
BM_MODELS ?= $(sort $(wildcard tests/golden/models/tiny-*-f32.phasor tests/golden/models/tiny-*-q8.phasor tests/golden/models/tiny-rotary-*.phasor))
BM_SRC    := $(filter-out $(filter-out src/kernels/level_scalar.cpp,$(ALL_LEVEL_SRC)),$(wildcard src/*.cpp $(ROOMS:%=src/%/*.cpp)))
BM_OBJ    := $(BM_SRC:%.cpp=$(BM_OUT)/obj/%.o)
BM_IMAGE_OBJ := $(BM_OBJ) $(BM_OUT)/obj/$(BM_DIR)/vectors.o $(BM_OUT)/obj/$(BM_DIR)/startup.o $(BM_OUT)/obj/$(BM_DIR)/memory.o $(BM_OUT)/weights.o

# The weight files and the table of them, as lines of assembly: name, start, size.
BM_TABLE = '.section .rodata.table,"a"' '.balign 4'
BM_WEIGHTS_S = $(BM_TABLE) '.global board_weights' 'board_weights:' \
  $(foreach m,$(BM_MODELS),'.section .weights,"a"' '.balign 64' '1: .incbin "$m"' '2:' \
    '.section .rodata.names,"a"' '3: .asciz "$(basename $(notdir $m))"' $(BM_TABLE) '.word 3b' '.word 1b' '.word 2b - 1b') \
  $(BM_TABLE) '.word 0' '.word 0' '.word 0'

baremetal: $(BM_OUT)/vectors.elf

$(BM_OUT)/vectors.elf: $(BM_IMAGE_OBJ) $(BM_DIR)/$(BOARD).ld $(BM_DIR)/sections.ld
	$(BM_PREFIX)g++ $(BM_LINK) -o $@ $(BM_IMAGE_OBJ) -lgcc
	@$(BM_PREFIX)size $@

$(BM_OUT)/obj/%.o: %.cpp $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(BM_PREFIX)g++ $(BM_CXX) $(DEPEND) -c $< -o $@
$(BM_OUT)/obj/%.o: %.c $(BM_OUT)/flags
	@mkdir -p $(@D)
	$(BM_PREFIX)gcc $(BM_C) $(DEPEND) -c $< -o $@
$(BM_OUT)/weights.o: $(BM_OUT)/weights.S $(BM_MODELS)
	$(BM_PREFIX)gcc -mthumb $(BM_CPU) -c $< -o $@
$(BM_OUT)/weights.S: FORCE
	$(call write_if_changed,$(BM_WEIGHTS_S))
$(BM_OUT)/flags: FORCE
	$(call write_if_changed,'$(BM_CXX)' '$(BM_C)')
-include $(BM_OBJ:.o=.d) $(BM_OUT)/obj/$(BM_DIR)/vectors.d $(BM_OUT)/obj/$(BM_DIR)/startup.d

test-baremetal: baremetal
	python3 tests/cross/hash_check.py board $(BOARD) $(BM_OUT)/vectors.elf
