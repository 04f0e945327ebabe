"""A description drafted from a checkpoint's names and shapes: `convert.py --explain`."""
