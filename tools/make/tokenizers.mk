# Measures every kind of tokenizer against the packages, into the table of tokenizers.md: some four minutes.
.PHONY: tokenizers
tokenizers: .venv-reference/ready
	OMP_NUM_THREADS=1 .venv-reference/bin/python tests/reference/tokenizer_table.py --write

# Tokenizers composed at random from the parts of the tokenizers package, against it: COUNT of them from number SEED on; TEXTS=500 texts each;
# SHOW='wrong,unnamed,stuck': results that are printed; KEEP=folder: where the tokenizer.json of these goes.
.PHONY: tokenizer-fuzz
tokenizer-fuzz: .venv-reference/ready
	OMP_NUM_THREADS=1 nice -n 19 .venv-reference/bin/python tests/reference/tokenizer_fuzz.py $(if $(findstring command,$(origin COUNT)),--count $(COUNT)) \
	  $(if $(findstring command,$(origin SEED)),--first $(SEED)) $(if $(TEXTS),--texts $(TEXTS)) $(if $(SHOW),--show $(SHOW)) $(if $(KEEP),--keep $(KEEP))
