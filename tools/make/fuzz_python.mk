# Hostile inputs for every reader of the converter: `make fuzz-python COUNT=1000 FIRST=0`, COUNT of each reader (1000) from number FIRST on.
# READERS='gguf config': these alone. SHOW='gguf 17': that input again, with its trace. COVERAGE=1: what of the readers' modules is reached
# (with the package coverage, of .venv-reference).
.PHONY: fuzz-python
fuzz-python: all
	@$(MAKE) $(if $(COVERAGE),.venv-reference,.venv)/ready
	@nice -n 19 $(if $(COVERAGE),.venv-reference,.venv)/bin/python tests/fuzz/python/campaign.py $(if $(SHOW),--show $(SHOW),\
	  --count $(if $(findstring command,$(origin COUNT)),$(COUNT),1000) --first $(FIRST) $(if $(READERS),--readers $(subst $(empty) $(empty),$(comma),$(strip $(READERS)))) $(if $(COVERAGE),--coverage))
