"""Families of checkpoints: what somebody's library calls a model's fields and tensors becomes a
`Model`, a descriptor and where each tensor's values come from."""
