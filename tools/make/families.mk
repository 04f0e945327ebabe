# Measures every architecture that the converter knows against transformers, into the table of docs/families.md.
.PHONY: families
families: .venv-reference/ready all
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_encoders.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_decoders.py --write
	PHASOR=$(OUT)/phasor .venv-reference/bin/python tests/reference/test_families_translators.py --write
