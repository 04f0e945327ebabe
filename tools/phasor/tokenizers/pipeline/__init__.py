"""A tokenizer.json in its own parts: each step of its normalizer, pre-tokenizer and decoder becomes
rows of a section (docs/reference/file-format.md, TOKENIZER, pipeline)."""
