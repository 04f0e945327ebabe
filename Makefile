# Phasor's build. `make help` lists the targets.
#
#   config=release|small|debug|sanitize|threads|memory|scalar|relaxed   what kind of build (build/ for release, build/CONFIG/ for the others)
#   LIBC=musl                              a static program with musl in place of the system's C library (Debian: musl-tools), build/musl/phasor
#   LEVELS='scalar avx2'                   no more than these of the processor family's instruction-set levels (src/kernels/levels.mk)
#   TARGET=aarch64|armhf|riscv64|wasm      a static cross build, in build/TARGET/; TOOLCHAIN=clang in build/TARGET-clang/
#   CROSS=prefix-  ARCHFLAGS=…             any other toolchain of gcc's kind; what it needs to know of the processor; STATIC=0 links dynamically
#   BOARD=mps2-an385|mps2-an386|mps2-an500|mps3-an547|netduinoplus2   bare-metal images, in build/BOARD/
#   PHASOR_ONLY='q8 unigram relu …'        no more than these words name is built (src/build.h), in build/only/
#   WERROR=1                               warnings are errors
#   V=1                                    whole commands in place of short lines
#   CXX=…  CC=…  EXTRA_CXXFLAGS=…          the compilers (gcc and clang) and flags of your own
#   XSIMD=DIR  DOCTEST=DIR                 where the headers of xsimd and doctest lie (default /usr/include)
#
# src/build.mk has the lists of files and the flags, src/kernels/levels.mk the levels of each processor family and theirs: CMakeLists.txt reads the same.
# Changing a flag or the compiler rebuilds what it touches; headers are tracked.

MAKEFLAGS += --no-builtin-rules --no-print-directory
# $(call short,WHAT) before a command: on screen it is WHAT and the file that is made, unless V=1.
V ?= 0
short = $(if $(filter 1,$(V)),,@printf '%-4s %s\n' '$1' '$@' && )
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

config ?= release
TARGET ?=
CROSS  ?=
TOOLCHAIN ?= gcc
CLANG  ?= clang++-19
STATIC ?= 1
LIBC   ?=
MUSL_GCC ?= musl-gcc
BOARD  ?= mps2-an500
PREFIX ?= /usr/local
DESTDIR ?=
XSIMD   ?= /usr/include
DOCTEST ?= /usr/include
MODEL   ?= models/zh-en.phasor

ifeq ($(filter $(config),release small debug sanitize threads memory scalar $(if $(filter wasm,$(TARGET)),relaxed)),)
  $(error config=$(config): expected release, small, debug, sanitize, threads, memory or scalar; with TARGET=wasm relaxed too)
endif
ifeq ($(filter $(LIBC),musl),$(if $(LIBC),,musl))
  $(error LIBC=$(LIBC): expected musl, or nothing for the compiler's own C library)
endif

# ---------------------------------------------------------------- compilers
TRIPLE_aarch64 := aarch64-linux-gnu
TRIPLE_armhf   := arm-linux-gnueabihf
TRIPLE_riscv64 := riscv64-linux-gnu
RUNNER_aarch64 := qemu-aarch64-static
RUNNER_armhf   := qemu-arm-static
RUNNER_riscv64 := qemu-riscv64-static
# Emscripten's programs of 2022 (3.1.6, Debian 12's) mistake node's own fetch for a browser's.
# Node 20 has relaxed SIMD behind an option, newer ones have it: RUNNER=node.
RUNNER_wasm    := node --no-experimental-fetch $(if $(filter relaxed,$(config)),--experimental-wasm-relaxed-simd)

ifeq ($(TARGET)$(CROSS),)
  ifeq ($(origin CXX),default)
    CXX := g++
  endif
  ifeq ($(origin AR),default)
    AR := ar
  endif
else ifneq ($(CROSS),)
  CXX := $(CROSS)g++
  CC  := $(CROSS)gcc
  AR  := $(CROSS)ar
  override TARGET := $(or $(TARGET),$(patsubst %-,%,$(notdir $(CROSS))))
else ifeq ($(TARGET),wasm)
  CXX := em++
  CC  := emcc
  AR  := emar
  export NODE_PATH ?= /usr/share/nodejs
else ifeq ($(TRIPLE_$(TARGET)),)
  $(error TARGET=$(TARGET): expected aarch64, armhf, riscv64 or wasm, or a toolchain with CROSS=prefix-)
else ifeq ($(TOOLCHAIN),clang)
  CXX := $(CLANG) --target=$(TRIPLE_$(TARGET))
  CC  := $(subst clang++,clang,$(CLANG)) --target=$(TRIPLE_$(TARGET))
  AR  := $(TRIPLE_$(TARGET))-ar
else
  CXX := $(TRIPLE_$(TARGET))-g++
  CC  := $(TRIPLE_$(TARGET))-gcc
  AR  := $(TRIPLE_$(TARGET))-ar
endif
RUNNER ?= $(RUNNER_$(TARGET))

# x86_64, aarch64, arm, riscv64, … whatever the compiler builds for.
MACHINE_NAME := $(shell $(CXX) -dumpmachine 2>/dev/null)
ARCH := $(firstword $(subst -, ,$(MACHINE_NAME)))
ifeq ($(ARCH),)
  ifeq ($(filter help clean distclean demo lock python test test-machines test-reference,$(MAKECMDGOALS)),)
    $(error $(CXX) does not run: install it, or name another compiler with CXX=…)
  endif
endif
IS_CLANG := $(findstring clang,$(shell $(CXX) --version 2>/dev/null | head -1))
COMPILER := $(if $(IS_CLANG),clang,gcc)
include src/build.mk

OUT := build
ifneq ($(TARGET),)
  OUT := $(OUT)/$(TARGET)$(if $(filter clang,$(TOOLCHAIN)),-clang)
endif
ifneq ($(config),release)
  OUT := $(OUT)/$(config)
endif
ifneq ($(PHASOR_ONLY),)
  OUT := $(OUT)/only
endif
OBJ := $(OUT)/obj

# ---------------------------------------------------------------- flags
WARN    := -Wall -Wextra -Wconversion -Wshadow -Wdate-time
ifeq ($(WERROR),1)
  WARN += -Werror
endif

# Not -O0: there a level's file leaks weak copies of inline functions, compiled for its own instruction set.
# These two, and the fuzzers, have red zones between the parts of an arena and look at every access
# to a part (src/runtime/zones.h, view.h).
RED_ZONES := -DPHASOR_RED_ZONES
OPTIMIZE_debug    := -O1 -g -fno-omit-frame-pointer $(RED_ZONES)
OPTIMIZE_sanitize := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all $(RED_ZONES)
# The thread sanitizer; and the memory sanitizer, which only clang has: an arena's bytes are unwritten until a session writes them (zones.h).
OPTIMIZE_threads  := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
OPTIMIZE_memory   := -O1 -g -fno-omit-frame-pointer -fsanitize=memory -fsanitize-memory-track-origins -fsanitize-recover=memory $(RED_ZONES)
OPTIMIZE := $(OPTIMIZE_$(config))
# The tests themselves: what doctest makes of them takes gcc three times as long to optimize under the sanitizers. Their own addresses are
# checked, by calls, and undefined behavior in the engine alone, whose copies of inline functions are linked before theirs.
ADDRESSES_BY_CALLS = $(if $(IS_CLANG),-mllvm -,--param )asan-instrumentation-with-call-threshold=0
CASES_sanitize = -O0 -g1 -fno-sanitize=undefined $(ADDRESSES_BY_CALLS)

MACHINE := $(MACHINE_$(ARCH)) $(HOSTED_$(ARCH)) $(ARCHFLAGS)

# WebAssembly has no threads here, and its program sees the files of the system that node runs on.
ifeq ($(TARGET),wasm)
  EXCEPTIONS := -fexceptions
  LINK_SYSTEM := $(EXCEPTIONS) -sNODERAWFS=1 -sALLOW_MEMORY_GROWTH=1 -sEXIT_RUNTIME=1
else
  PTHREAD := -pthread
  SHARED  := $(SHARED_CODE)
  LINK_SYSTEM := $(LINK_SECTIONS) -pthread $(if $(TARGET),$(if $(filter 0,$(STATIC)),,-static))
endif

# PHASOR_ONLY='q8 unigram …': the words as one list of the preprocessor.
empty :=
comma := ,
only_flag = $(if $(strip $1),-DPHASOR_ONLY=\"$(subst $(empty) $(empty),$(comma),$(strip $1))\")
ONLY_FLAG := $(call only_flag,$(PHASOR_ONLY))

# gcc's record of each function's frame and calls beside its object, from which tools/make/stack.py adds up the deepest stack.
ifeq ($(IS_CLANG)$(filter sanitize threads memory debug,$(config)),)
  FRAMES := $(if $(filter-out 4 5 6 7 8 9,$(firstword $(subst ., ,$(shell $(CXX) -dumpversion 2>/dev/null)))),-fcallgraph-info=su)
endif

# Counts instructions under QEMU (cross.mk has its rule).
COUNT_PLUGIN := build/count_instructions.so
HEADERS  := build/include
COMMON   := $(OPTIMIZE) $(MACHINE) $(NUMERIC) -Iinclude $(SECTIONS)
CXX_CORE := $(LANGUAGE) $(COMMON) $(SHARED) $(WARN) $(ONLY_FLAG) $(FRAMES)
CALM     := $(CALM_$(config))
CXX_CLI  := $(LANGUAGE) $(COMMON) $(CLI_$(config)) $(WARN) $(PTHREAD) $(if $(PHASOR_ONLY),$(if $(filter outputs,$(subst $(comma), ,$(PHASOR_ONLY))),,-DPHASOR_WITHOUT_OUTPUTS))
CLI_OUT  := $(OUT)
CXX_LINK := $(CXX)
# LIBC=musl: its headers in place of the system's, behind the compiler's own of C++; a static program. The engine is the same: it needs no C library.
ifeq ($(LIBC),musl)
  MUSL     ?= /usr/include/$(ARCH)-linux-musl
  CXX_CLI  += -nostdinc $(shell $(CXX) -E -x c++ -v /dev/null 2>&1 | sed -n '/> search starts/,/^End/s/^ \(.*c++.*\)/-isystem \1/p') -isystem $(MUSL) -isystem $(shell $(CXX) -print-file-name=include) \
              -D__locale_t=locale_t -D__GLIBC_PREREQ\(a,b\)=0
  CXX_LINK := $(MUSL_GCC) -static
  CLI_OUT  := $(OUT)/musl
endif
# Programs of the tests under emulation: they cost more to compile than to run.
CXX_TEST := -std=c++17 $(COMMON) $(CALM) $(if $(TARGET),-O1) $(CASES_$(config)) $(WARN) -Isrc -Itests/cpp -isystem $(HEADERS) $(PTHREAD) $(EXCEPTIONS)
C_TEST   := -std=c99 $(COMMON) -Wall -Wextra -Wpedantic -Wconversion -Wshadow $(if $(filter 1,$(WERROR)),-Werror)
# The tests' heap counter: how it stands before malloc in a static program (tests/cpp/heap_counter.cpp).
ifneq ($(and $(TARGET),$(findstring gnu,$(MACHINE_NAME))),)
  CXX_TEST  += -DPHASOR_HEAP_WRAP
  HEAP_LINK := $(foreach f,malloc calloc realloc memalign aligned_alloc posix_memalign,-Wl,--wrap=$f)
endif
# A small static program lies where it was linked, without a page between its parts.
LINK     := $(OPTIMIZE) $(MACHINE) $(LINK_SYSTEM) $(and $(filter small,$(config)),$(LIBC),-no-pie -Wl$(comma)-z$(comma)noseparate-code)
# Binaryen of 2022 (Debian 12's) does not know relaxed SIMD, so nothing of it takes part: -O1 is the linker's, the code is compiled by then.
ifeq ($(config),relaxed)
  LINK     += -O1 -sWASM_BIGINT=1 -sERROR_ON_WASM_CHANGES_AFTER_LINK=1 -Wl,--strip-all
  CXX_CORE += -DPHASOR_WASM_RELAXED
endif
LINK += $(if $(and $(TARGET),$(filter-out 0,$(STATIC))),$(ASKS_LEVELS_$(ARCH)))
# The memory sanitizer and a C++ library that is not compiled with it (tests/cpp/memory_sanitizer.cpp).
ifeq ($(config),memory)
  CXX_TEST += -include tests/cpp/library_templates.h -fsanitize-ignorelist=tests/cpp/memory_sanitizer.txt
  LINK     += $(foreach f,_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_ _ZNSt6localeC1Ev _ZNSt8ios_base7_M_initEv,-Wl,--wrap=$f)
endif
DEPEND    = -MMD -MP -MF $(@:.o=.d)

# ---------------------------------------------------------------- sources
include src/kernels/levels.mk

ifeq ($(config),scalar)
  LEVELS := scalar
  CXX_CORE += -DPHASOR_SCALAR_ONLY
else
  LEVELS := $(or $(LEVELS_$(ARCH)),scalar)
  ifneq ($(filter-out $(LEVELS),$(LEVELS_$(ARCH))),)
    CXX_CORE += -DPHASOR_LEVELS=\"$(subst $(empty) $(empty),$(comma),$(strip $(LEVELS)))\"
  endif
  # These have all but the integer products from another.
  $(foreach l,$(LEVELS),$(if $(filter-out $(LEVELS),$(LEVEL_NEEDS_$l)),$(error LEVELS=$(LEVELS): $l needs $(LEVEL_NEEDS_$l))))
endif

# A level under sanitizers: not unrolled, addresses only, checked by calls and not by branches, with the numbers of lines alone, and
# without red zones around each of the many local vectors: all of it would take gcc many minutes. The scalar level has everything.
LEVEL_SANITIZE := -fno-sanitize=undefined -g1 $(if $(IS_CLANG),-mllvm -,--param )asan-stack=0 $(ADDRESSES_BY_CALLS)
level_flags = $(or $(LEVEL_OPTIMIZE_$(config)_$1),$(LEVEL_OPTIMIZE_$(config)),$(LEVEL_OPTIMIZE)) $(LEVEL_FLAGS_$1) \
  $(if $(filter sanitize,$(config)),$(if $(filter-out scalar,$1),$(LEVEL_SANITIZE)))

# What a target can break that the host cannot: kernels and their levels, memory, threads; with 32 bits every size too. All with TEST_FILES='*'.
# The twin of level amx's tiles, which is plain C++, runs on one of them.
TEST_FILES_aarch64 := kernels kernels_hashes kernels_fine kernels_inputs16 kernels_minima kernels_rows kernels_scores kernels_whole functions engine encoder pool heap_counter beam
TEST_FILES_armhf   := $(TEST_FILES_aarch64) kernels_tiles format chat tokenizer* limits_*
TEST_FILES_riscv64 := kernels kernels_hashes functions pool heap_counter
TEST_FILES_wasm    := kernels kernels_hashes functions format
TEST_FILES ?= $(or $(TEST_FILES_$(TARGET)),*)

# A processor family's levels lie in a folder of their own, the scalar one beside it.
level_sources  = $(wildcard $(foreach l,$1,$(subst %,$l,$(LEVEL_FILES))))
ALL_LEVEL_SRC := $(call level_sources,*)
LEVEL_SRC := $(call level_sources,$(LEVELS))
# In the order of names, whatever the folder's: it is the order of the library's members.
PLAIN_SRC := $(filter-out $(ALL_LEVEL_SRC),$(foreach p,src/*.cpp $(ROOMS:%=src/%/*.cpp),$(sort $(wildcard $p))))
CORE_SRC  := $(PLAIN_SRC) $(LEVEL_SRC)
CLI_SRC   := $(sort $(wildcard $(CLI_FILES)))
# The twin of level amx's tiles has all its products once more: it is compiled once, for the tests that take it.
TEST_SHARED := $(addprefix tests/cpp/,main.cpp heap_counter.cpp memory_sanitizer.cpp support.cpp)
TEST_TWIN   := tests/cpp/tile_level.cpp
TEST_SRC  := $(wildcard $(TEST_SHARED) $(TEST_FILES:%=tests/cpp/test_%.cpp))
TEST_SRC  += $(if $(filter tests/cpp/test_kernels% %/test_tiles_models.cpp,$(TEST_SRC)),$(wildcard $(TEST_TWIN)))
TOOL_SRC  := $(filter-out $(TEST_SHARED) $(TEST_TWIN) $(wildcard tests/cpp/test_*.cpp),$(wildcard tests/cpp/*.cpp))
C_SRC     := $(wildcard examples/c/*.c)
# Models that nobody wrote: the generator, and what is tried on them by the test that takes them.
GENERATOR_SRC := $(wildcard tests/cpp/generator/*.cpp)
ifneq ($(filter %/test_generated.cpp %/test_roundings.cpp %/test_threads.cpp,$(TEST_SRC)),)
  TEST_SRC += $(GENERATOR_SRC) $(wildcard tests/cpp/properties/*.cpp tests/cpp/long_run/*.cpp tests/cpp/threads/*.cpp)
endif

CORE_OBJ := $(CORE_SRC:%.cpp=$(OBJ)/%.o)
CLI_OBJ  := $(CLI_SRC:%.cpp=$(CLI_OUT)/obj/%.o)
TEST_OBJ := $(TEST_SRC:%.cpp=$(OBJ)/%.o)
TOOL_OBJ := $(TOOL_SRC:%.cpp=$(OBJ)/%.o)
GENERATOR_OBJ := $(GENERATOR_SRC:%.cpp=$(OBJ)/%.o)
C_OBJ    := $(C_SRC:%.c=$(OBJ)/%.o)

LIBRARY := $(OUT)/libphasor.a
PROGRAM := $(if $(CLI_SRC),$(CLI_OUT)/phasor)
TESTS   := $(OUT)/phasor-tests
BOUND_SRC   := $(filter-out src/kernels/%,$(CORE_SRC)) tests/cpp/main.cpp tests/cpp/support.cpp $(wildcard tests/cpp/bounds/*.cpp)
BOUND_OBJ   := $(BOUND_SRC:%.cpp=$(OUT)/bounds/%.o)
BOUND_TESTS := $(OUT)/phasor-bounds
PROGRAMS_CPP := $(TOOL_SRC:tests/cpp/%.cpp=$(OUT)/%)
PROGRAMS_C   := $(C_SRC:examples/c/%.c=$(OUT)/c-%)
OLD_CALLER   := $(OUT)/old-caller

# ---------------------------------------------------------------- main targets
.PHONY: all shared tests programs help clean distclean install uninstall FORCE
all: $(LIBRARY) $(PROGRAM)
tests: all $(TESTS) $(if $(TARGET)$(filter-out release,$(config)),,$(BOUND_TESTS)) $(PROGRAMS_CPP) $(PROGRAMS_C) $(OLD_CALLER)
programs: $(PROGRAMS_CPP) $(PROGRAMS_C) $(OLD_CALLER)

$(LIBRARY): $(CORE_OBJ) $(OUT)/library.list
	@rm -f $@
	$(call short,AR)$(AR) qcsD $@ $(CORE_OBJ)

$(CLI_OUT)/phasor: $(CLI_OBJ) $(LIBRARY)
	$(call short,LINK)$(CXX_LINK) $(LINK) -o $@ $(CLI_OBJ) $(LIBRARY) $(LDFLAGS)

# The same objects as a shared library, linked by the C compiler; its names and their versions are those of phasor.map (tools/make/abi.py).
VERSION = $(shell sed -n 's/^\#define PHASOR_VERSION_[MP][A-Z]* //p' include/phasor.h | paste -sd.)
SONAME  = libphasor.so.$(firstword $(subst ., ,$(VERSION)))
$(OUT)/$(SONAME): $(CORE_OBJ) $(EXPORTS) $(OUT)/library.list
	$(call short,LINK)$(CC) -shared $(OPTIMIZE) $(MACHINE) $(LINK_SECTIONS) -Wl,-soname,$(SONAME),--version-script=$(EXPORTS),-z,defs -o $@ $(CORE_OBJ) $(LDFLAGS)
shared: $(OUT)/libphasor.so
$(OUT)/libphasor.so: $(OUT)/$(SONAME)
	@ln -sf $(SONAME) $@

# The thread pool and the blocks of memory are the program's, and tested with the rest.
SENTENCE_OBJ := $(filter %/sentences.o,$(CLI_OBJ))
POOL_OBJ := $(filter %/pool.o %/memory.o %/mapping.o,$(CLI_OBJ))
# Emscripten's linker optimizes the whole module once more: of the tests that costs more than they run. What is shipped, and what prints the hashes, has it.
$(TESTS): private LINK += $(if $(filter wasm,$(TARGET)),-O1)
$(TESTS): $(TEST_OBJ) $(POOL_OBJ) $(SENTENCE_OBJ) $(LIBRARY)
	$(call short,LINK)$(CXX) $(LINK) -o $@ $(if $(filter sanitize,$(config)),$(CORE_OBJ)) $(TEST_OBJ) $(POOL_OBJ) $(SENTENCE_OBJ) $(LIBRARY) $(LDFLAGS) $(HEAP_LINK)

# Bounds of time: the core but its kernels once more, with counters in it (src/work.h), and tests that double the input.
$(BOUND_TESTS): $(BOUND_OBJ) $(LIBRARY)
	$(call short,LINK)$(CXX) $(LINK) -o $@ $(BOUND_OBJ) $(LIBRARY) $(LDFLAGS)
$(OUT)/bounds/src/%.o: src/%.cpp $(OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_CORE) -DPHASOR_COUNT_WORK $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
$(OUT)/bounds/tests/%.o: tests/%.cpp $(OUT)/flags | $(HEADERS)/doctest
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_TEST) -DPHASOR_COUNT_WORK $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@

$(PROGRAMS_CPP): $(OUT)/%: $(OBJ)/tests/cpp/%.o $(POOL_OBJ) $(LIBRARY)
	$(call short,LINK)$(CXX) $(LINK) -o $@ $(filter %.o,$^) $(LIBRARY) $(LDFLAGS)
$(OUT)/generate_driver: $(GENERATOR_OBJ)

# C programs are linked by the C compiler: the core needs no C++ run-time library.
$(PROGRAMS_C): $(OUT)/c-%: $(OBJ)/examples/c/%.o $(LIBRARY)
	$(call short,LINK)$(CC) $(LINK) -o $@ $< $(LIBRARY) $(LDFLAGS)
# A caller compiled with the phasor.h of release 0.2.0, which is kept beside it.
$(OLD_CALLER): $(OBJ)/tests/old_caller/old_caller.o $(LIBRARY)
	$(call short,LINK)$(CC) $(LINK) -o $@ $< $(LIBRARY) $(LDFLAGS)

# A level's file is compiled for its own instruction set, and only those files see xsimd.
level_of = $(patsubst level_%,%,$(basename $(notdir $1)))
$(patsubst %.cpp,$(OBJ)/%.o,$(filter-out %/level_scalar.cpp,$(LEVEL_SRC))): $(OBJ)/%.o: %.cpp $(OUT)/flags | $(if $(filter wasm32,$(ARCH)),,$(HEADERS)/xsimd)
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_CORE) $(call level_flags,$(call level_of,$<)) -isystem $(HEADERS) $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
$(OBJ)/src/kernels/level_scalar.o: src/kernels/level_scalar.cpp $(OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_CORE) $(call level_flags,scalar) $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
$(CLI_OUT)/obj/src/cli/%.o: src/cli/%.cpp $(CLI_OUT)/flags.cli
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_CLI) $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
$(CALM_FILES:%.cpp=$(CLI_OUT)/obj/%.o): CXX_CLI += $(CALM)
$(OBJ)/src/%.o: src/%.cpp $(OUT)/flags
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_CORE) $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
# Tests cost more to compile than to run, the twin's unrolled products most of all. Emscripten has no -Og.
$(TEST_OBJ) $(BOUND_OBJ): private CXX_TEST += $(if $(CASES_$(config))$(filter wasm,$(TARGET)),,-Og)
$(TEST_TWIN:%.cpp=$(OBJ)/%.o): private CXX_TEST += $(if $(filter wasm,$(TARGET)),-O0)
$(OBJ)/tests/cpp/%.o: tests/cpp/%.cpp $(OUT)/flags | $(HEADERS)/doctest
	@mkdir -p $(@D)
	$(call short,CXX)$(CXX) $(CXX_TEST) $(EXTRA_CXXFLAGS) $(DEPEND) -c $< -o $@
$(OBJ)/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call short,CC)$(CC) $(C_TEST) $(DEPEND) -c $< -o $@

# Third-party headers are seen through links, so that nothing else of the host is on a cross compiler's path. A link to another folder than
# the one that is asked for is made anew; $(OUT)/flags has where xsimd lies, and the sum of the header with its version.
stale = $(if $(filter-out $(realpath $2/$1),$(or $(realpath $(HEADERS)/$1),none)),FORCE)
$(HEADERS)/xsimd: $(call stale,xsimd,$(XSIMD))
	@test -e "$(XSIMD)/xsimd/xsimd.hpp" || { echo "xsimd's headers are not in $(XSIMD): run tools/install.sh build, or set XSIMD=DIR, or build with config=scalar" >&2; exit 1; }
	@mkdir -p $(@D) && ln -sfn "$(abspath $(XSIMD))/xsimd" $@
$(HEADERS)/doctest: $(call stale,doctest,$(DOCTEST))
	@test -e "$(DOCTEST)/doctest/doctest.h" || { echo "doctest's header is not in $(DOCTEST): run tools/install.sh test, or set DOCTEST=DIR" >&2; exit 1; }
	@mkdir -p $(@D) && ln -sfn "$(abspath $(DOCTEST))/doctest" $@

# Written only when it changes: compilers, flags, and the list of the library's members.
write_if_changed = @mkdir -p $(@D); printf '%s\n' $1 > $@.$$$$; cmp -s $@.$$$$ $@ && rm -f $@.$$$$ || mv $@.$$$$ $@
$(OUT)/flags: FORCE
	$(call write_if_changed,'$(CXX) $(shell $(CXX) -dumpfullversion -dumpversion 2>/dev/null)' '$(CC)' '$(CXX_CORE)' '$(CXX_CLI)' '$(CXX_TEST)' \
	  '$(C_TEST)' '$(LINK)' '$(EXTRA_CXXFLAGS)' '$(foreach l,$(LEVELS),$l: $(call level_flags,$l);)' \
	  '$(if $(filter-out scalar,$(LEVELS)),$(if $(filter wasm32,$(ARCH)),,$(shell cksum "$(abspath $(XSIMD))/xsimd/config/xsimd_config.hpp" 2>/dev/null)))')
$(CLI_OUT)/flags.cli: FORCE
	$(call write_if_changed,'$(CXX) $(shell $(CXX) -dumpfullversion -dumpversion 2>/dev/null)' '$(CXX_CLI)' '$(EXTRA_CXXFLAGS)')
$(OUT)/library.list: FORCE
	$(call write_if_changed,$(CORE_OBJ))
FORCE:

-include $(CORE_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_OBJ:.o=.d) $(TOOL_OBJ:.o=.d) $(GENERATOR_OBJ:.o=.d) $(C_OBJ:.o=.d) $(BOUND_OBJ:.o=.d)

# ---------------------------------------------------------------- install
# What pkg-config and CMake find, of the templates that CMakeLists.txt fills too.
fill = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|lib|g' -e 's|@INCLUDEDIR@|include|g' -e 's|@TO_INCLUDE@|../include|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@LINK@|$(ASKS_LEVELS_$(ARCH))|g' $1 > $2
INSTALLED = bin/phasor $(INTERFACE) lib/libphasor.a $(if $(SHARED),lib/libphasor.so lib/$(SONAME) lib/libphasor.so.$(VERSION)) lib/pkgconfig/phasor.pc lib/cmake/phasor/phasorConfig.cmake lib/cmake/phasor/phasorConfigVersion.cmake
INSTALL_TO = $(DESTDIR)$(PREFIX)
install: all $(if $(SHARED),shared)
	install -d $(sort $(dir $(INSTALLED:%=$(INSTALL_TO)/%)))
	$(if $(PROGRAM),install -m 755 $(PROGRAM) $(INSTALL_TO)/bin/phasor)
	install -m 644 $(LIBRARY) $(INSTALL_TO)/lib/libphasor.a
	$(if $(SHARED),install -m 755 $(OUT)/$(SONAME) $(INSTALL_TO)/lib/libphasor.so.$(VERSION) && \
	  ln -sf libphasor.so.$(VERSION) $(INSTALL_TO)/lib/$(SONAME) && ln -sf $(SONAME) $(INSTALL_TO)/lib/libphasor.so)
	install -m 644 $(INTERFACE) $(INSTALL_TO)/include/
	$(call fill,cmake/phasor.pc.in,$(INSTALL_TO)/lib/pkgconfig/phasor.pc)
	$(foreach f,phasorConfig.cmake phasorConfigVersion.cmake,$(call fill,cmake/$f.in,$(INSTALL_TO)/lib/cmake/phasor/$f) &&) true
uninstall:
	rm -f $(INSTALLED:%=$(INSTALL_TO)/%)
	-rmdir $(INSTALL_TO)/lib/cmake/phasor

clean:
	rm -rf build
distclean: clean
	rm -rf .venv .venv-reference .venv-bench

help:
	@sed -n 's/^#: //p' Makefile
	@echo
	@sed -n '3,10s/^# *//p' Makefile

#: make                 build/phasor and build/libphasor.a
#: make shared          build/libphasor.so: the shared library
#: make demo            installs what is missing, builds, translates a few sentences
#: make python          .venv, with what tools/convert.py needs
#: make test            what a contributor needs, in minutes: C++, Python, the host's levels, the rules of the source; ONLY='unit pytest'
#: make test-machines   emulated machines, boards, sanitizers, long sweeps; of the longest one in four, SHARE=1 runs all
#: make test-reference  the Python reference and the converter against PyTorch (large download)
#: make families        every Hugging Face architecture against transformers, into families.md
#: make tokenizers      every kind of tokenizer against the packages, into tokenizers.md
#: make test-set        the translators' test set from the public file of sentence pairs, DATA=cmn.txt, into build/test-set
#: make test-beams COUNT=25   rules of beam search, drawn together, beside transformers
#: make check           the rules of the source: rooms, symbols, no allocator, no static constructors
#: make generate        what is made from tables (src/facts): C++, Python, regions of pages
#: make lock            the locks of the Python packages, tools/locks, from tools/requirements*.txt; UPGRADE=1, LOCKS=NAME
#: make tokens          how much code there is, room by room, beside revision BASE (the last commit)
#: make cross           static program and library for TARGET, or with the toolchain CROSS=prefix-
#: make test-cross      tests, hashes and program of TARGET under emulation; without TARGET aarch64, armhf, riscv64 and wasm
#: make test-bits       the table of hashes on every emulated processor, clang's cross builds, the CMake example
#: make test-stack      how deep the stack goes, here or for TARGET, beside what phasor inspect says
#: make baremetal       Cortex-M images without system, heap or C library, for BOARD
#: make test-baremetal  those images of all boards under emulation: hashes and texts compared with the host's
#: make reproducible    the same bytes of program, library and converted models, built twice in two folders
#: make wheels          the source distribution and the wheels of a release, each tried, into build/wheels; ONLY=aarch64
#: make sbom            build/sbom.json: the engine, its one library, the Python packages, the models, as CycloneDX
#: make size            code and data of the engine for a Cortex-M4F, room by room, against a record
#: make hashes          writes tests/golden/hashes.txt from this machine
#: make archive         a weight file of every family and type that the archive lacks: tests/golden/archive
#: make realtime        no allocation, lock or system call in what a real-time thread may call: clang's RealtimeSanitizer
#: make test-generated  COUNT=10000 models that nobody wrote; config=sanitize under sanitizers
#: make faults          every system call of the program and the converter fails in turn; FAULTS= for a part
#: make fuzz            libFuzzer over every entry for MINUTES, side by side; BITS=32; SANITIZER=memory; TARGETS='chat state'
#: make fuzz-python     hostile inputs for every reader of the converter, COUNT of each (tests/README.md)
#: make config-fuzz     COUNT random configurations of every family against transformers 4 and 5; FIRST= FAMILIES= WRITE=1
#: make pattern-fuzz    COUNT regular expressions composed at random against the engines of both dialects; SEED= TEXTS=
#: make tokenizer-fuzz  COUNT tokenizers composed at random against the tokenizers package; SEED= TEXTS= SHOW= KEEP=
#: make test-long       STEPS=10000000 steps with forks, cuts, stops and restores at random, against an oracle that keeps everything
#: make test-threads    many sessions of one model, the pool and the mapping, under the thread sanitizer
#: make test-memory     the C++ tests under clang's memory sanitizer
#: make mutants         every bound and comparison of the rooms that check files, changed one by one: the fast tests must notice; ROOM= MUTANT=
#: make coverage        which branches of what strangers' bytes steer no test takes: 100 % or a reason beside the branch
#: make bench           speed and memory beside llama.cpp, CTranslate2 and others, into performance.md; ROWS='q8r q4m' for a part, TYPES= THREADS= RUNS=
#: make bench-encoder   the same of a sentence encoder, beside CTranslate2, ONNX Runtime and sentence-transformers; TYPES= THREADS= RUNS=
#: make bench-translators  three translators with more sentences, beside CTranslate2: an hour and more, LINES= SHAPES= TYPES= THREADS= RUNS=
#: make quality         size, perplexity or BLEU of F32_MODEL in every type, beside llama.cpp's; QUALITY_FLAGS= as tools/bench/quality.py has them
#: make install         PREFIX=/usr/local DESTDIR=
#: make clean           removes build/ (distclean: the Python environments too)
include $(wildcard tools/make/*.mk)
