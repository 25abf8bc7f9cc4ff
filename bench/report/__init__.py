"""BENCHMARKS.md and its charts from the JSON of the runs: `python3 -m bench.report`. Only draw.py needs more than the standard library."""
