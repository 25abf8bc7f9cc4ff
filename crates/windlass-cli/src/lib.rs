//! The `windlass` command, as a library of one function: what `main` runs.
//!
//! The hidden modules are what the benchmark harness (`windlass-bench`) shares with it. They are no interface
//! for others, and change without notice.

mod cli;
mod commands;
#[doc(hidden)]
pub mod duration;
#[doc(hidden)]
pub mod failure;
#[doc(hidden)]
pub mod globals;
#[doc(hidden)]
pub mod interrupt;
mod keys;
mod listen;
mod log;
#[doc(hidden)]
pub mod measure;
mod noted;
#[doc(hidden)]
pub mod open;
#[doc(hidden)]
pub mod program;
#[doc(hidden)]
pub mod progress;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod text;
mod time;
mod traces;

use std::ffi::OsString;

/// Runs a command line, the program's name first, and gives its exit code: 0 done, 1 failed, 2 wrong usage, 3 no fitting store.
///
/// ```
/// let args = ["windlass", "--version"].map(Into::into);
/// assert_eq!(windlass_cli::main(args), 0);
/// ```
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    program::main::<cli::Cli>(args)
}

/// Reads an input of `enqueue --many`; see there.
#[doc(hidden)]
pub async fn read_many<F>(input: &mut dyn std::io::BufRead, store: &F) -> Result<u64, (Option<u64>, String)>
where
    F: AsyncFn(Vec<windlass::NewJob>, u64) -> windlass::Result<windlass::EnqueuedOnce>,
{
    commands::enqueue::read_many(input, store).await
}
