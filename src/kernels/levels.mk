# The levels of each processor family, scalar first and the best last, in the form of src/build.mk. LEVEL_FLAGS are those of a level's
# file beside those of the core; LEVEL_NEEDS names the levels that it has all but its integer products from. kernels.cpp chooses among the
# same levels at run time.
LEVELS_x86_64  := scalar sse2 avx2 avxvnni avx512 avx512vnni amx
LEVELS_aarch64 := scalar neon dotprod i8mm
LEVELS_arm     := scalar neon
LEVELS_riscv64 := scalar
WASM_relaxed   := relaxed
LEVELS_wasm32  := scalar $(WASM_$(config)) simd128

# Optimized in every configuration: at -O0 the compiler emits xsimd's functions out of line, and the linker could give one
# level another level's copy. Of one configuration, and of one level there, where that is said.
LEVEL_OPTIMIZE := -O3
LEVEL_OPTIMIZE_small        := -O2
LEVEL_OPTIMIZE_small_scalar := -Os
LEVEL_OPTIMIZE_sanitize := -O1
LEVEL_OPTIMIZE_threads  := -O1
LEVEL_OPTIMIZE_memory   := -O1

LEVEL_FLAGS_sse2 := -msse2

AVX2 := -mavx2 -mfma -mf16c
LEVEL_FLAGS_avx2    := $(AVX2)
LEVEL_FLAGS_avxvnni := $(AVX2) -mavxvnni
LEVEL_NEEDS_avxvnni := avx2

# gcc 12 warns falsely of uninitialized variables inside its own avx512fintrin.h.
AVX512_gcc := -Wno-uninitialized -Wno-maybe-uninitialized
AVX512 := -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c $(AVX512_$(COMPILER))
LEVEL_FLAGS_avx512     := $(AVX512)
LEVEL_FLAGS_avx512vnni := $(AVX512) -mavx512vnni
LEVEL_NEEDS_avx512vnni := avx512
LEVEL_FLAGS_amx := $(AVX512) -mavx512vnni
LEVEL_NEEDS_amx := avx512 avx512vnni

LEVEL_FLAGS_relaxed := -msimd128 -mrelaxed-simd
LEVEL_FLAGS_simd128 := -msimd128

# gcc 12 takes a vector of 16 floats apart into four registers only when told that 64 bytes are not too many, and its scheduler, before the
# registers are given out, then needs more than there are. Counted by `make bench-cross`: f32 for 4 rows 2.3 times the products an instruction.
NEON_gcc := --param=sra-max-scalarization-size-Ospeed=4096 -fno-schedule-insns
HALF_gcc := -mfp16-format=ieee
NEON_arm := -march=armv7-a -mfpu=neon-vfpv4 $(HALF_$(COMPILER))
NEON     := $(NEON_$(COMPILER)) $(NEON_$(ARCH))
LEVEL_FLAGS_neon    := $(NEON)
LEVEL_FLAGS_dotprod := $(NEON) -march=armv8.2-a+dotprod
LEVEL_NEEDS_dotprod := neon
LEVEL_FLAGS_i8mm    := $(NEON) -march=armv8.2-a+dotprod+i8mm
LEVEL_NEEDS_i8mm    := neon dotprod

# Microcontrollers. gcc 12 has a fifth more instructions with its first scheduler (q8), which would hoist loads for which there are no
# registers, and with addresses that increment some that the assembler rejects.
LEVEL_FLAGS_dsp    := -fno-schedule-insns
LEVEL_FLAGS_helium := -fno-tree-vectorize -fno-schedule-insns -fno-auto-inc-dec
