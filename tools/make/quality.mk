# What each type costs: F32_MODEL is a model in f32, QUALITY_FLAGS what tools/bench/quality.py takes beside it (--text FILE, or --sources and --references; --gguf, --moments).
.PHONY: quality
quality: .venv-reference/ready all
	PYTHONPATH=tools .venv-reference/bin/python -m bench.quality $(F32_MODEL) --phasor $(OUT)/phasor $(QUALITY_FLAGS)
