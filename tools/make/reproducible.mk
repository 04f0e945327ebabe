# Two builds and two conversions in two folders give the same bytes. PARTS='release small convert' for some.
.PHONY: reproducible
reproducible: .venv/ready
	@bash tools/make/reproducible.sh $(PARTS)
