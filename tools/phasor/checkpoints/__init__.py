"""Containers that many programs write: files of PyTorch, safetensors, NumPy."""
