//! Runs one program per job: args on stdin, facts in the environment; its exit code says the outcome.

use super::{
    printed::Printed,
    process_group::{Running, name_of},
    said::{self, Said},
    tail::Tail,
};
use bytes::Bytes;
use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use windlass::{Args, Context, Error, ErrorKind, Outcome, TraceContext, Traces};

/// `EX_DATAERR`: the job can never succeed.
const EXIT_DISCARD: i32 = 65;
/// `EX_TEMPFAIL`: not now.
const EXIT_SNOOZE: i32 = 75;
/// How long a job waits whose program said "not now".
const SNOOZE: Duration = Duration::from_secs(60);
/// How long one waits that was not started, because the store is out of reach.
const AWAY: Duration = Duration::from_secs(5);
/// How long to read a result on after the program ended, while a child of its own keeps stdout open.
const STDOUT_GRACE: Duration = Duration::from_secs(5);
/// The same of stderr.
const STDERR_GRACE: Duration = Duration::from_millis(200);

/// How to run the program of a job.
#[derive(Clone)]
pub(super) struct Program {
    /// What `sh -c` gets.
    pub(super) command: String,
    /// Whether what it prints is the result of its job.
    pub(super) results: bool,
}

/// A program that runs, and its pipes.
struct Started {
    running: Running,
    stdin: ChildStdin,
    stdout: Option<ChildStdout>,
    stderr: ChildStderr,
    said: Option<Said>,
}

impl Program {
    /// Runs the program for one job.
    pub(super) async fn run(&self, args: Bytes, context: Context) -> Outcome {
        let checkpoint = match context.last_checkpoint::<Args>().await {
            Ok(checkpoint) => checkpoint,
            Err(error) if error.kind() == ErrorKind::SchemaTooOld => None, // which keeps none
            Err(error) => return unread(&error),
        };
        let Started { mut running, stdin, stdout, stderr, said } = match self.spawn(&context, checkpoint) {
            Ok(started) => started,
            Err(error) => return failed(format!("cannot start sh -c {:?}: {error}", self.command)),
        };
        let (mut feeding, mut reading, mut printing) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let (tail, printed, over) = (Tail::default(), Printed::default(), CancellationToken::new());
        let mut saying = JoinSet::new();
        if let Some(said) = said {
            saying.spawn(said.read(over.clone()));
        }
        feeding.spawn(feed(stdin, args));
        reading.spawn(tail.clone().read(stderr));
        if let Some(stdout) = stdout {
            printing.spawn(printed.clone().read(stdout));
        }
        let ended = tokio::select! {
            ended = running.child.wait() => ended,
            () = context.cancelled() => {
                running.stop().await;
                over.cancel();
                saying.join_next().await;
                // The engine says before it why: a timeout, or somebody cancelled the job.
                return failed(with_tail("the program was stopped".to_owned(), &tail.text()));
            }
        };
        over.cancel();
        saying.join_next().await;
        match ended {
            Ok(status) => {
                let _ = timeout(STDOUT_GRACE, printing.join_next()).await;
                let _ = timeout(STDERR_GRACE, reading.join_next()).await;
                judge(status, printed.result(), &tail.text())
            }
            Err(error) => failed(format!("cannot wait for the program: {error}")),
        }
    }

    fn spawn(&self, context: &Context, checkpoint: Option<Args>) -> io::Result<Started> {
        let mut command = Command::new("sh");
        let said = Said::of(context);
        match &said {
            Some(said) => command.args(["-c", said::SHELL]).arg(said.path()).env(said::PATH.0, said::PATH.1),
            None => command.arg("-c").env_remove(said::PATH.0),
        };
        command.arg(&self.command).env_remove("WINDLASS_CHECKPOINT");
        command.envs(checkpoint.map(|checkpoint| ("WINDLASS_CHECKPOINT", said::kept(&checkpoint))));
        match Traces::current().or_else(|| context.meta().and_then(TraceContext::of_meta)) {
            Some(trace) => {
                command.env("TRACEPARENT", trace.traceparent()).env("TRACESTATE", trace.tracestate());
            }
            // This program's own trace is not the job's.
            None => {
                command.env_remove("TRACEPARENT").env_remove("TRACESTATE");
            }
        }
        let mut child = command
            .env("WINDLASS_JOB_ID", context.id().to_string())
            .env("WINDLASS_KIND", context.kind())
            .env("WINDLASS_QUEUE", context.queue())
            .env("WINDLASS_ATTEMPT", context.attempt().to_string())
            .env("WINDLASS_MAX_ATTEMPTS", context.max_attempts().to_string())
            .stdin(Stdio::piped())
            // Our own stdout is for the report.
            .stdout(if self.results { Stdio::piped() } else { io::stderr().into() })
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stderr.take());
        let (stdin, stderr) = pipes.ok_or_else(|| io::Error::other("the program has no pipes"))?;
        let stdout = child.stdout.take();
        Ok(Started { running: Running::new(child), stdin, stdout, stderr, said })
    }
}

/// Gives the program its args. One that does not read them is fine.
async fn feed(mut stdin: ChildStdin, args: Bytes) {
    let _ = stdin.write_all(&args).await;
}

fn judge(status: ExitStatus, result: Option<Args>, tail: &str) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(0), _) => Outcome::Complete(result),
        (Some(EXIT_SNOOZE), _) => Outcome::Snooze(SNOOZE),
        (Some(EXIT_DISCARD), _) => Outcome::Discard(with_tail(format!("exit code {EXIT_DISCARD}"), tail)),
        (Some(code), _) => failed(with_tail(format!("exit code {code}"), tail)),
        (None, Some(signal)) => failed(with_tail(format!("killed by signal {}", name_of(signal)), tail)),
        (None, None) => failed(with_tail(status.to_string(), tail)),
    }
}

/// What an attempt before kept cannot be read, so the program is not started. A store that is out of reach costs the job no attempt.
fn unread(error: &Error) -> Outcome {
    let why = format!("cannot read what an attempt before kept: {error}");
    if !error.is_retryable() {
        return failed(why);
    }
    tracing::warn!("{why}; the job comes again in {} s", AWAY.as_secs());
    Outcome::Snooze(AWAY)
}

fn failed(error: String) -> Outcome {
    Outcome::Retry { after: None, error }
}

fn with_tail(message: String, tail: &str) -> String {
    match tail.trim_end() {
        "" => message,
        tail => format!("{message}: {tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_outcomes() {
        let judged = |raw| judge(ExitStatus::from_raw(raw), None, "oh no\n");
        assert_eq!(judged(0), Outcome::Complete(None));
        assert_eq!(judged(EXIT_SNOOZE << 8), Outcome::Snooze(SNOOZE));
        assert_eq!(judged(EXIT_DISCARD << 8), Outcome::Discard("exit code 65: oh no".to_owned()));
        assert_eq!(judged(3 << 8), failed("exit code 3: oh no".to_owned()));
        assert_eq!(judged(9), failed("killed by signal 9 (SIGKILL): oh no".to_owned()));
        assert_eq!(judged(40), failed("killed by signal 40: oh no".to_owned()));
    }

    #[test]
    fn a_store_that_is_out_of_reach_takes_no_attempt() {
        assert_eq!(unread(&Error::new(ErrorKind::Unavailable, "away")), Outcome::Snooze(AWAY));
        let damaged = unread(&Error::new(ErrorKind::Internal, "damaged"));
        assert_eq!(damaged, failed("cannot read what an attempt before kept: damaged".to_owned()));
    }
}
