# Files and regions of pages that are made from tables: src/facts and what tools/make/facts names. They are checked in; `make check` (row generated) fails where
# one is not what this writes.
.PHONY: generate
generate: all
	@PYTHONPATH=tools python3 tools/make/generate.py --build $(OUT)
