//! The `windlass-bench` program as its users meet it, on SQLite.

mod cases;
#[path = "../../../windlass-cli/tests/cli/program.rs"]
mod program;

/// What these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-bench");
