//! A process of this program that works for this one. It reads what to do from a pipe, answers in lines of JSON, and stops when
//! nothing can be read any more, so that it never outlives this one.

use serde::Serialize;
use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};
use tokio::sync::mpsc;
use windlass_cli::failure::Outcome;

/// What starts such a process; `role` is the argument that says which it is.
pub(crate) fn command(role: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
    // A Ctrl-C in the terminal must reach this process only: it tells the others to stop.
    command.process_group(0);
    Ok(command)
}

/// In such a process: the lines that are sent to it, and their end.
pub(crate) fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

/// In such a process: sends an answer.
pub(crate) fn answer(answer: &impl Serialize) -> Outcome {
    let line = serde_json::to_string(answer).map_err(io::Error::from)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
