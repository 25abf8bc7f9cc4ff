//! The `windlass-bench` program as its users meet it, on SQLite.

mod cases;
mod points_of_size;
#[path = "../../../windlass-cli/tests/cli/program.rs"]
mod program;
mod size;

/// What these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-bench");
