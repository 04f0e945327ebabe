"""Families of checkpoints. A family turns a source into a `Model`: a descriptor, and where each
tensor's values come from.

To add one, write a module with `read(…) -> Model` and let `convert.py` choose it; nothing else
changes.
"""
