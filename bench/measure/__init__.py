"""Runs every peer's adapter beside ours on the same servers; `bench/peers/run` is the command, bench/peers/README.md the contract."""
