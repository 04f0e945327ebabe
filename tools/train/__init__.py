"""Trainings of the models in models/ and of those in docs/positions.md."""
