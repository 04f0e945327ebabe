"""Regular expressions of tokenizers, compiled offline to tables that the engine checks and runs."""
