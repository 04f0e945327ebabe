# The levels of each processor family: $(call level,FAMILY,NAME,FLAGS,NEEDS). FLAGS are those of the
# level's file beside those of the core; NEEDS names the levels that it has all but its integer
# products from. kernels.cpp chooses among the same levels at run time.
# Optimized in every configuration: at -O0 the compiler emits xsimd's functions out of line, and the linker could give one
# level another level's copy.
level = $(eval LEVELS_$1 += $2)$(eval LEVEL_FLAGS_$2 := -O3 $3)$(eval LEVEL_NEEDS_$2 := $4)
AVX2   := -mavx2 -mfma -mf16c
AVX512 := -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c
# gcc 12 warns falsely of uninitialized variables inside its own avx512fintrin.h.
AVX512 += $(if $(IS_CLANG),,-Wno-uninitialized -Wno-maybe-uninitialized)
# gcc 12 takes a vector of 16 floats apart into four registers only when told that 64 bytes are not too many, and its scheduler, before the
# registers are given out, then needs more than there are. Counted by `make bench-cross`: f32 for 4 rows 2.3 times the products an instruction.
NEON   := $(if $(IS_CLANG),,--param sra-max-scalarization-size-Ospeed=4096 -fno-schedule-insns)
NEON32 := -march=armv7-a -mfpu=neon-vfpv4 $(if $(IS_CLANG),,-mfp16-format=ieee)

$(call level,x86_64,scalar)
$(call level,x86_64,sse2,-msse2)
$(call level,x86_64,avx2,$(AVX2))
$(call level,x86_64,avxvnni,$(AVX2) -mavxvnni,avx2)
$(call level,x86_64,avx512,$(AVX512))
$(call level,x86_64,avx512vnni,$(AVX512) -mavx512vnni,avx512)
$(call level,x86_64,amx,$(AVX512) -mavx512vnni,avx512 avx512vnni)
$(call level,riscv64,scalar)
$(call level,wasm32,scalar)
$(if $(filter relaxed,$(config)),$(call level,wasm32,relaxed,-msimd128 -mrelaxed-simd))
$(call level,wasm32,simd128,-msimd128)
$(call level,arm,scalar)
$(call level,aarch64,scalar)
$(call level,$(filter arm aarch64,$(ARCH)),neon,$(NEON) $(if $(filter arm,$(ARCH)),$(NEON32)))
$(call level,aarch64,dotprod,$(NEON) -march=armv8.2-a+dotprod,neon)
$(call level,aarch64,i8mm,$(NEON) -march=armv8.2-a+dotprod+i8mm,neon dotprod)
# A Cortex-M with Helium (tools/make/baremetal.mk): -fno-tree-vectorize for all files, since what the compiler vectorizes by itself flushes subnormals, in
# the scalar level too. gcc 12 has a fifth more instructions with its first scheduler (q8), and with addresses that increment some that the assembler rejects.
# The first scheduler would hoist loads for which there are no registers.
LEVEL_FLAGS_dsp := -fno-schedule-insns
LEVEL_FLAGS_helium := -fno-tree-vectorize -fno-schedule-insns -fno-auto-inc-dec
