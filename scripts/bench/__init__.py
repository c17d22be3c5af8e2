"""Benchmarks: `python -m scripts.bench` takes them all, `python -m scripts.bench.log` one.

Each measures the real parts in real processes and prints a table (on standard error) and JSON (on standard
output). A target that was missed is printed as missed; the exit code says only whether it could be measured.
`--quick` takes small numbers, to see that it runs: its figures say nothing.
"""
