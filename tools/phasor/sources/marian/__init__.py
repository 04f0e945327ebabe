"""Checkpoints of Marian: an .npz with its vocabularies."""
