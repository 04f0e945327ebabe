"""Trainings of the models in models/ and of those in docs/reference/positions.md."""
