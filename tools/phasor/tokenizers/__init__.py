"""Tokenizers: their sections of the weight file, made from SentencePiece models and
tokenizer.json."""
