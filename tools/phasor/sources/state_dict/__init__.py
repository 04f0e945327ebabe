"""A state_dict with a description."""
