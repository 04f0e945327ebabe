# Measures every architecture that the converter knows against transformers, into the table of docs/families.md.
.PHONY: families
families: .venv-reference/ready all
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_encoders.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_decoders.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_translators.py --write

# Draws of beams' rules together, beside transformers: COUNT of each model. make test-reference has a few.
.PHONY: test-beams
test-beams: .venv-reference/ready all
	SWEEP=$(or $(COUNT),25) PHASOR=$(OUT)/phasor .venv-reference/bin/python -m pytest -q tests/reference/test_beam.py -k together
