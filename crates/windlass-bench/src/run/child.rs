//! The process of a point.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Output, Stdio};
use tokio::process::Command;
use windlass_cli::{failure::Outcome, globals::Globals, interrupt::Signals};

/// How a process ended.
pub(super) enum Ended {
    Report(Value),
    /// The store cannot do this.
    Cannot(String),
    Failed(String),
    Interrupted,
}

/// Runs this program with the arguments of a point. It learns the store from its environment: a URL may hold
/// a password, which a list of processes would show. The first interruption is passed on, and the process cleans
/// up; the second ends it at once.
pub(super) async fn run(words: &[String], globals: &Globals, signals: &mut Signals) -> Outcome<Ended> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).arg("--json").env("WINDLASS_LOG", &globals.log);
    match &globals.store {
        Some(url) => command.env("WINDLASS_STORE", url),
        None => command.env_remove("WINDLASS_STORE"),
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A Ctrl-C in the terminal must reach this process only, which passes it on.
    let child = command.process_group(0).kill_on_drop(true).spawn()?;
    let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let ended = child.wait_with_output();
    tokio::pin!(ended);
    let mut asked = false;
    loop {
        tokio::select! {
            output = &mut ended => {
                let output = output?;
                return Ok(if asked { Ended::Interrupted } else { read(&output) });
            }
            () = signals.next() => {
                let signal = if asked { Signal::KILL } else { Signal::TERM };
                asked = true;
                // A process that has ended meanwhile needs no signal.
                let _ = id.map(|id| kill_process(id, signal));
            }
        }
    }
}

fn read(output: &Output) -> Ended {
    if output.status.success() {
        return match serde_json::from_slice(&output.stdout) {
            Ok(report) => Ended::Report(report),
            Err(error) => Ended::Failed(format!("it reported no JSON: {error}")),
        };
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    match error_of(&stderr) {
        Some((code, message)) if code == "unsupported" => Ended::Cannot(message),
        Some((_, message)) => Ended::Failed(message),
        None => Ended::Failed(format!("{}: {}", output.status, stderr.trim())),
    }
}

/// The code and the message of the JSON that ends the output; lines of the log may come before.
fn error_of(stderr: &str) -> Option<(String, String)> {
    let start = if stderr.starts_with('{') { 0 } else { stderr.rfind("\n{")? + 1 };
    let error: Value = serde_json::from_str(&stderr[start..]).ok()?;
    let text = |name: &str| error["error"][name].as_str().map(str::to_owned);
    text("code").zip(text("message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_found_behind_the_log() {
        let json = "{\n  \"error\": {\n    \"code\": \"c\",\n    \"message\": \"m\"\n  }\n}\n";
        let expected = Some(("c".to_owned(), "m".to_owned()));
        assert_eq!(error_of(json), expected);
        assert_eq!(error_of(&format!("WARN {{x}}\n{json}")), expected);
        assert_eq!(error_of("killed"), None);
    }
}
