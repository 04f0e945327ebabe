# Speed and memory beside CTranslate2, in an environment of its own.
.PHONY: bench
bench: .venv-bench/ready all $(OUT)/bench_peer
	.venv-bench/bin/python tools/bench_peer.py $(MODEL) --build $(OUT) --out docs/performance.md
