# Measures every architecture that the converter knows against transformers, into the table of families.md.
.PHONY: families
families: .venv-reference/ready .venv-reference/transformers5/ready all
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_encoders.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_decoders.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_translators.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_translator_rules.py --write

# Draws of beams' rules together, beside transformers: COUNT of each model. make test-reference has a few.
.PHONY: test-beams
test-beams: .venv-reference/ready all
	SWEEP=$(or $(COUNT),25) PHASOR=$(OUT)/phasor .venv-reference/bin/python -m pytest -q tests/reference/test_beam.py -k together

# Random configurations of every family against transformers 4 and 5: COUNT of each from number FIRST on; FAMILIES='llama,bert': these alone;
# WRITE=1: the table of docs/reference/families.md.
.PHONY: config-fuzz
config-fuzz: .venv-reference/ready .venv-reference/transformers5/ready
	OMP_NUM_THREADS=1 nice -n 19 .venv-reference/bin/python tests/reference/config_fuzz.py $(if $(findstring command,$(origin COUNT)),--count $(COUNT)) \
	  $(if $(FIRST),--first $(FIRST)) $(if $(FAMILIES),--families $(FAMILIES)) $(if $(WRITE),--write)
