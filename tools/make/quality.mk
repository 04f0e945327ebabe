# What each type costs: F32_MODEL is a model in f32, QUALITY_FLAGS what tools/bench/quality.py takes beside it (--text FILE, or --sources and --references; --checkpoint, --moments).
# Language models and encoders stand beside llama.cpp and ONNX Runtime, translators beside CTranslate2.
QUALITY_ENVIRONMENT = $(if $(findstring --sources,$(QUALITY_FLAGS)),.venv-reference,.venv-bench)
.PHONY: quality
quality: $(QUALITY_ENVIRONMENT)/ready $(if $(findstring --checkpoint,$(QUALITY_FLAGS))$(findstring --gguf,$(QUALITY_FLAGS)),.venv-bench/llama) all
	PYTHONPATH=tools $(QUALITY_ENVIRONMENT)/bin/python -m bench.quality $(F32_MODEL) --phasor $(OUT)/phasor $(QUALITY_FLAGS)
