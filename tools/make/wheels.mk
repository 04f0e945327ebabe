# The source distribution and the wheels of the release, for x86-64 and aarch64, built and tried: build/wheels. ONLY=aarch64 for one of them.
.PHONY: wheels
WHEELS := build/wheels
wheels: $(WHEELS)/env/ready
	@$(WHEELS)/env/bin/python tools/make/wheels.py $(ONLY)
$(WHEELS)/env/ready: tools/locks/requirements-wheels.txt
	@mkdir -p $(@D)
	@bash tools/make/venv.sh $(@D) $<
