# The same source on other machines, under emulation, and one table of hashes for all.
.PHONY: cross test-cross test-emulated test-hashes hashes

, := ,
# The levels that must have run for the table to say anything: scalar everywhere, and what every machine of the family has.
MUST_RUN_x86_64  := scalar,sse2
MUST_RUN_aarch64 := scalar,neon$(if $(TARGET),$(,)dotprod)
MUST_RUN_arm     := scalar,neon
MUST_RUN         := $(if $(filter scalar,$(config)),scalar,$(or $(MUST_RUN_$(ARCH)),scalar))
# Emulated threads are slow; 1 and 7 cover alone, and more than there is work for.
HASH_WAYS := $(if $(TARGET),--threads 1$(,)7 --chunk 0$(,)7)

# Sweeps over whole ranges of floats, and over ways to run each model, are for the host: elsewhere the tables of hashes say the same, and they are compared.
SWEEPS := '*ulp*,exp for softmax*,*GELU*,*SiLU*,pool: time*,*same bits at every level*,*1.8: keys and values in f16 give*,lookahead gives*'

cross:
	@test -n "$(TARGET)" || { echo "cross: expected TARGET=aarch64, armhf or riscv64" >&2; exit 2; }
	@$(MAKE) tests

hashes: $(OUT)/hash_driver
	python3 tests/cross/hash_check.py write $(OUT)/hash_driver

test-hashes: $(OUT)/hash_driver $(PROGRAM)
	python3 tests/cross/hash_check.py compare --levels $(MUST_RUN) $(HASH_WAYS) --program $(PROGRAM) $(or $(TARGET),host) $(OUT)/hash_driver $(QEMU)

ifeq ($(TARGET),)
test-cross:
	@for t in aarch64 armhf; do $(MAKE) test-cross TARGET=$$t || exit 1; done
else
test-cross: $(TESTS) $(OUT)/hash_driver $(PROGRAM)
	$(QEMU) $(TESTS) --test-case-exclude=$(SWEEPS)
	@$(MAKE) test-hashes
endif
