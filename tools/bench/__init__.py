"""Benchmarks side by side with other engines; `make bench` runs them (performance.md)."""
