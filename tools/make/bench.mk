# Speed and memory beside CTranslate2, in an environment of its own.
.PHONY: bench bench-encoder
bench: .venv-bench/ready all $(OUT)/bench_peer
	.venv-bench/bin/python tools/bench_peer.py $(MODEL) --build $(OUT) --out docs/performance.md

# The same of a sentence encoder, beside ONNX Runtime and sentence-transformers.
bench-encoder: .venv-bench/ready all $(OUT)/bench_encoder
	.venv-bench/bin/python tools/bench_encoder.py $(MODEL_DIRECTORY) --build $(OUT) --out docs/performance-encoder.md
