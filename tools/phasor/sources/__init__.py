"""Where checkpoints come from, a folder for each kind of source: its container, the names of its
tensors, its tokenizer."""
