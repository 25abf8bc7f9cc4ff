//! Nothing: this package is its test, which is `windlass-runtime` with the locks and tasks of shuttle.
