"""Phasor's Python side: checkpoints and weight files. `python -m phasor.convert`, `.verify`,
`.plot`; docs/convert.md. docs/architecture.md has the packages; each imports those above it."""
