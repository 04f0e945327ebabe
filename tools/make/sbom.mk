# What the project is made of, as CycloneDX: made for a release, not kept in the tree.
.PHONY: sbom
sbom:
	@mkdir -p build
	@python3 tools/make/sbom.py --xsimd $(XSIMD) --doctest $(DOCTEST) > build/sbom.json.part && mv build/sbom.json.part build/sbom.json
	@sha256sum build/sbom.json
