# Measures every kind of tokenizer against the packages, into the table of tokenizers.md: some four minutes.
.PHONY: tokenizers
tokenizers: .venv-reference/ready
	OMP_NUM_THREADS=1 .venv-reference/bin/python tests/reference/tokenizer_table.py --write

# Patterns composed at random, half of them in each dialect's own operators, against Oniguruma and fancy-regex: COUNT for each, on TEXTS texts
# each, from number SEED on. It prints what is refused, and states, bytes and seconds of what is compiled.
.PHONY: pattern-fuzz
pattern-fuzz: .venv-reference/ready
	PATTERN_COUNT=$(if $(findstring command,$(origin COUNT)),$(COUNT),500) PATTERN_TEXTS=$(if $(TEXTS),$(TEXTS),1000) \
	  PATTERN_SEED=$(if $(findstring command,$(origin SEED)),$(SEED),11) OMP_NUM_THREADS=1 nice -n 19 \
	  .venv-reference/bin/python -m pytest -q tests/reference/test_patterns.py -k at_random

# Tokenizers composed at random from the parts of the tokenizers package, against it: COUNT of them from number SEED on; TEXTS=500 texts each;
# SHOW='wrong,unnamed,stuck': results that are printed; KEEP=folder: where the tokenizer.json of these goes.
.PHONY: tokenizer-fuzz
tokenizer-fuzz: .venv-reference/ready
	OMP_NUM_THREADS=1 nice -n 19 .venv-reference/bin/python tests/reference/tokenizer_fuzz.py $(if $(findstring command,$(origin COUNT)),--count $(COUNT)) \
	  $(if $(findstring command,$(origin SEED)),--first $(SEED)) $(if $(TEXTS),--texts $(TEXTS)) $(if $(SHOW),--show $(SHOW)) $(if $(KEEP),--keep $(KEEP))
