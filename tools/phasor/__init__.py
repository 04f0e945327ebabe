"""Phasor's Python side: checkpoints and weight files. `python -m phasor.convert`, `.verify`,
`.plot`; converter.md. architecture.md has the packages; each imports those above it."""
