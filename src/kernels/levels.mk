# The levels of each processor family, and the flags that each level's file gets beside those of the core.
# kernels.cpp chooses among the same levels at run time.
LEVELS_x86_64  := scalar sse2 avx2 avxvnni avx512 avx512vnni
LEVELS_aarch64 := scalar neon dotprod
LEVELS_arm     := scalar neon
LEVELS_riscv64 := scalar

# Optimised in every configuration: at -O0 the compiler emits xsimd's functions out of line, and the linker could give one
# level another level's copy.
LEVEL_FLAGS_scalar  := -O3
LEVEL_FLAGS_sse2    := -O3 -msse2
LEVEL_FLAGS_avx2    := -O3 -mavx2 -mfma -mf16c
LEVEL_FLAGS_avxvnni := -O3 -mavx2 -mfma -mf16c -mavxvnni
LEVEL_FLAGS_avx512  := -O3 -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c
# gcc 12 warns falsely of uninitialised variables inside its own avx512fintrin.h.
ifeq ($(IS_CLANG),)
  LEVEL_FLAGS_avx512 += -Wno-uninitialized -Wno-maybe-uninitialized
endif
LEVEL_FLAGS_avx512vnni := $(LEVEL_FLAGS_avx512) -mavx512vnni
# gcc 12 takes a vector of 16 floats apart into four registers only when told that 64 bytes are not too many, and its scheduler, before the
# registers are given out, then needs more than there are. Counted by `make bench-cross`: f32 for 4 rows 2.3 times the products an instruction.
NEON := -O3 $(if $(IS_CLANG),,--param sra-max-scalarization-size-Ospeed=4096 -fno-schedule-insns)
ifeq ($(ARCH),arm)
  LEVEL_FLAGS_neon  := $(NEON) -march=armv7-a -mfpu=neon-vfpv4 $(if $(IS_CLANG),,-mfp16-format=ieee)
else
  LEVEL_FLAGS_neon  := $(NEON)
endif
LEVEL_FLAGS_dotprod := $(NEON) -march=armv8.2-a+dotprod
# A Cortex-M with Helium (tools/make/baremetal.mk): -fno-tree-vectorize for all files, since what the compiler vectorises by itself flushes subnormals, in
# the scalar level too. gcc 12 has a fifth more instructions with its first scheduler (q8), and with addresses that increment some that the assembler rejects.
LEVEL_FLAGS_helium := -fno-tree-vectorize -fno-schedule-insns -fno-auto-inc-dec
