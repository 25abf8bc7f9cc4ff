"""The benchmarks around the binary: peers beside us (bench.measure), the report (bench.report), the regression guard (bench.guard)."""
