# The levels of each architecture (beside scalar, which every build has) and their flags: level_NAME.cpp is compiled with
# KERNEL_FLAGS and FLAGS_NAME, and kernels.cpp with -DPHASOR_LEVEL_NAME for each of them.
# Optimised in every configuration: at -O0 the compiler emits header functions that the linker could share between levels.
KERNEL_FLAGS := -std=c++17 -O3 -ffp-contract=off -fno-exceptions -fno-rtti -Wall -Wextra -Wconversion -Wshadow -Werror

LEVELS_x86_64 := sse2 avx2 avxvnni avx512 avx512vnni
LEVELS_aarch64 := neon dotprod
LEVELS_arm := neon
LEVELS_riscv64 :=
LEVELS_wasm32 :=

FLAGS_sse2 := -msse2
FLAGS_avx2 := -mavx2 -mfma -mf16c
FLAGS_avxvnni := -mavx2 -mfma -mf16c -mavxvnni
# gcc 12 warns falsely of uninitialised variables inside its own avx512fintrin.h.
FLAGS_avx512 := -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c -Wno-uninitialized -Wno-maybe-uninitialized
FLAGS_avx512vnni := $(FLAGS_avx512) -mavx512vnni
# ARMv7 (Linux, hard float) needs the unit named; AArch64 has NEON always.
FLAGS_neon_arm := -march=armv7-a -mfpu=neon-vfpv4 -mfp16-format=ieee -Wno-psabi
FLAGS_neon_aarch64 :=
FLAGS_dotprod := -march=armv8.2-a+dotprod
