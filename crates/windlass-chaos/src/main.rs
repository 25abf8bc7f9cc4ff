//! The command `windlass-chaos`: runs scenarios, tries the checker's own bugs, checks and tells histories.

mod command;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("windlass-chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}
