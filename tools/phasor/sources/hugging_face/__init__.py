"""Directories of Hugging Face: config.json, weights, tokenizer."""
