# What both builds read, the Makefile and CMakeLists.txt: files, flags, processors; src/kernels/levels.mk has the levels. Only assignments
# on one line, NAME := words, in which $(NAME) stands for another one's words, so that make includes the file and cmake/lists.cmake
# reads it line by line. COMPILER is gcc or clang, ARCH the compiler's machine: x86_64, aarch64, arm, riscv64, …

# ---------------------------------------------------------------- files
# A room of the core is a folder of src/: all its *.cpp, and those of src/ itself, go into the library. Of LEVEL_FILES, whose % is a
# level's name, only those of the levels.
ROOMS := format kernels text text/chat quantize model runtime decode api
LEVEL_FILES := src/kernels/level_%.cpp src/kernels/*/level_%.cpp
CLI_FILES   := src/cli/*.cpp src/cli/*/*.cpp
INTERFACE   := include/phasor.h include/phasor.hpp
# The names of the shared library.
EXPORTS     := src/api/phasor.map

# ---------------------------------------------------------------- flags
# Every multiply-add that is one operation is written as such: the compiler may not make others (rule 1.1).
NUMERIC  := -ffp-contract=off -fno-fast-math -fno-math-errno
LANGUAGE := -std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics
SECTIONS := -ffunction-sections -fdata-sections
# One set of objects for the archive and the shared library: only what phasor.h declares is seen outside, and it is not replaced there.
SHARED_CODE := -fPIC -fvisibility=hidden -fno-semantic-interposition

OPTIMIZE_release := -O3 -DNDEBUG
OPTIMIZE_scalar  := $(OPTIMIZE_release)
OPTIMIZE_relaxed := $(OPTIMIZE_release)
OPTIMIZE_small   := -Os -DNDEBUG -fno-asynchronous-unwind-tables
# Nothing in the program and the tests is hot; and gcc 12 for aarch64 fails, internally, when it vectorizes some of their files.
CALM_release := -O2 -fno-tree-vectorize
CALM_scalar  := $(CALM_release)
CALM_relaxed := $(CALM_release)
# The program is what stands around the engine; it is loaded at each start.
CLI_release  := -Os -fno-asynchronous-unwind-tables
CLI_scalar   := $(CLI_release)
CLI_relaxed  := $(CLI_release)
# Its loops are what is measured.
CALM_FILES := src/cli/host/machine.cpp

# gcc on ARM tells about a change in how it passes some structs since version 7: nothing here is that old.
PASSING_gcc := -Wno-psabi
MACHINE_aarch64 := $(PASSING_$(COMPILER))
MACHINE_arm     := $(PASSING_$(COMPILER))
# 32-bit programs read directories of 64-bit file systems.
HOSTED_arm := -D_FILE_OFFSET_BITS=64

LINK_SECTIONS := -Wl,--gc-sections,--as-needed
# In a static program of ARM's Linux the C library's getauxval, by which the levels are chosen, is there only if somebody asks for it.
ASKS_LEVELS_arm     := -Wl,-u,getauxval
ASKS_LEVELS_aarch64 := $(ASKS_LEVELS_arm)

# ---------------------------------------------------------------- microcontrollers
# The processors, the level beside the scalar one that each has, and what the whole core is compiled with.
CPU_cortex-m3  := -mcpu=cortex-m3 -mfloat-abi=soft
CPU_cortex-m4  := -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard
CPU_cortex-m7  := -mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard
CPU_cortex-m55 := -mcpu=cortex-m55 -mfloat-abi=hard
CPU_LEVEL_cortex-m4  := dsp
CPU_LEVEL_cortex-m7  := dsp
CPU_LEVEL_cortex-m55 := helium
# What the compiler vectorizes by itself flushes subnormals, in the scalar level too.
CPU_OPTIMIZE_cortex-m55 := -O3 -fno-tree-vectorize
BARE_METAL := -fno-use-cxa-atexit -fno-unwind-tables -fno-asynchronous-unwind-tables
