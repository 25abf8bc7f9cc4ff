use super::{
    Shared,
    lines::{self, Line, MAX_LINE},
};
use crate::commands::work::process_group::{Running, name_of};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    sync::atomic::Ordering,
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, Command},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use windlass_bridge::{Malformed, Said};

/// The version of the protocol.
const PROTOCOL: u32 = 1;
/// How long a process may take until it is ready.
const START_WAIT: Duration = Duration::from_secs(30);
/// The most jobs that one process runs at once.
const MAX_CONCURRENCY: usize = 10_000;
/// How many lines of a process wait to be looked at.
const LINES: usize = 256;
/// How long a process that closed its stdout may take to end by itself.
const END_WAIT: Duration = Duration::from_secs(1);

/// A process that is ready for jobs.
pub(super) struct Child {
    pub(super) running: Running,
    pub(super) ready: Ready,
    /// What it said, line by line; closed when it closed its stdout.
    pub(super) lines: mpsc::Receiver<Line>,
    /// Its stdin.
    pub(super) input: mpsc::Sender<Vec<u8>>,
    /// Reads and writes: the first that ends is the writer, when the process closed its stdin.
    pub(super) writer: JoinSet<()>,
    _reader: JoinSet<()>,
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::work) struct Ready {
    pub(in crate::commands::work) concurrency: usize,
    pub(in crate::commands::work) kinds: Vec<String>,
    pub(in crate::commands::work) timeouts: BTreeMap<String, Duration>,
}

impl Child {
    /// Starts a process, and waits until it is ready. An error goes on after its name.
    pub(super) async fn start(
        shared: &Shared,
        index: usize,
        expected: Option<&Ready>,
    ) -> Result<Self, String> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(&shared.command)
            .env("WINDLASS_PROTOCOL", PROTOCOL.to_string())
            .env("WINDLASS_PROCESS", index.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot be started: {error}"))?;
        shared.started.fetch_add(1, Ordering::Relaxed);
        let pipes = child.stdin.take().zip(child.stdout.take());
        let mut running = Running::new(child);
        let (stdin, stdout) = pipes.ok_or("has no pipes")?;
        let (mut writer, mut reader) = (JoinSet::new(), JoinSet::new());
        let (sender, mut lines) = mpsc::channel(LINES);
        reader.spawn(lines::read(stdout, sender));
        let ready = match timeout(START_WAIT, first_message(&mut lines)).await {
            Ok(Some(ready)) => ready?,
            Ok(None) => return Err(format!("{} before it said that it is ready", running.ended().await.how)),
            Err(_) => {
                return Err(format!(
                    "wrote no line {{\"type\":\"ready\",\"protocol\":1}} within {START_WAIT:?}"
                ));
            }
        };
        if let Some(expected) = expected.filter(|expected| **expected != ready) {
            return Err(format!(
                "says {ready:?} now, and said {expected:?} before; all of one worker say the same"
            ));
        }
        // Each job is told, cancelled and dropped once at most; the rest is for checkpoints.
        let (input, waiting) = mpsc::channel(ready.concurrency * 3 + LINES);
        writer.spawn(write(stdin, waiting));
        Ok(Self { running, ready, lines, input, writer, _reader: reader })
    }
}

/// Reads until the process says that it is ready; `None` when it never does.
async fn first_message(lines: &mut mpsc::Receiver<Line>) -> Option<Result<Ready, String>> {
    loop {
        let line = match lines.recv().await? {
            Line::Text(line) => line,
            Line::TooLong => return Some(Err(too_long())),
        };
        return Some(match Said::parse(&line) {
            Ok(Said::Ready { protocol: PROTOCOL, concurrency, mut kinds, timeouts }) => {
                // In one order, since many languages keep them in none.
                kinds.sort_unstable();
                kinds.dedup();
                let fits = (1..=MAX_CONCURRENCY).contains(&concurrency);
                let refused =
                    || format!("says that it runs {concurrency} jobs at once; 1 to {MAX_CONCURRENCY} can be");
                fits.then_some(Ready { concurrency, kinds, timeouts }).ok_or_else(refused)
            }
            Ok(Said::Ready { protocol, .. }) => {
                Err(format!("speaks protocol {protocol}, this version of windlass speaks {PROTOCOL}"))
            }
            Ok(Said::OfJob(_) | Said::Stop) => {
                Err(format!("wrote {} before it said that it is ready", shown(&line)))
            }
            Err(Malformed::Other) => {
                pass_on(&line);
                continue;
            }
            Err(Malformed::Message(error) | Malformed::OfJob { error, .. }) => {
                Err(format!("wrote {}, which is no message: {error}", shown(&line)))
            }
        });
    }
}

/// Writes what there is, many lines at once, until nobody has more to say or nobody reads.
async fn write(mut stdin: ChildStdin, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut text) = waiting.recv().await {
        while text.len() < MAX_LINE {
            let Ok(more) = waiting.try_recv() else { break };
            text.extend_from_slice(&more);
        }
        if stdin.write_all(&text).await.is_err() {
            return;
        }
    }
}

/// How a process ended.
pub(super) struct Ended {
    /// By itself, with exit code 0.
    pub(super) cleanly: bool,
    /// In words that go on after its name.
    pub(super) how: String,
}

impl Running {
    /// Waits for the end of a process that closed its stdout; it is killed when it does not end by itself. What it started and left behind
    /// ends, too: nobody else would end it.
    pub(super) async fn ended(&mut self) -> Ended {
        if timeout(END_WAIT, self.ended_itself()).await.is_err() {
            return Ended { cleanly: false, how: "closed its stdout and went on".to_owned() };
        }
        self.stop().await;
        match self.child.wait().await {
            Ok(status) => Ended { cleanly: status.success(), how: how(status) },
            Err(error) => Ended { cleanly: false, how: format!("cannot be waited for: {error}") },
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {}", name_of(signal)),
        (None, None) => format!("ended: {status}"),
    }
}

pub(super) fn too_long() -> String {
    format!("wrote a line of more than {MAX_LINE} bytes")
}

/// The beginning of a line, for people.
pub(super) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(400)]);
    format!("{:?}", crate::text::shorten(&text, 200))
}

/// Somebody printed to the wrong place: people see it where they look for it.
pub(super) fn pass_on(line: &[u8]) {
    let mut stderr = io::stderr().lock();
    // When stderr is closed, nobody wants to see it.
    let _ = stderr.write_all(line).and_then(|()| stderr.write_all(b"\n"));
}
