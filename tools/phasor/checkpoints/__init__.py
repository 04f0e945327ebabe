"""Readers of checkpoints: PyTorch, safetensors, GGUF."""
