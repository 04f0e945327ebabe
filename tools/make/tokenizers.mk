# Measures every kind of tokenizer against the packages, into the table of docs/tokenizers.md: some four minutes.
.PHONY: tokenizers
tokenizers: .venv-reference/ready
	OMP_NUM_THREADS=1 .venv-reference/bin/python tests/reference/tokenizer_table.py --write
