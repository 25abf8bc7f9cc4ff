//! What a program says of its job while it runs: a line each, on a descriptor of its own.

use std::{io, path::Path};
use tempfile::TempPath;
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::{OpenOptions, Receiver, Sender},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use windlass::{Args, Context, Limits, Progress};

/// What `sh -c` gets: the pipe is the program's descriptor 3. It takes over the shell's place, so that a signal that ends it is known.
pub(super) const SHELL: &str = r#"exec 3>"$0"; exec sh -c "$1""#;
/// Where a program finds it, which one that is run elsewhere can do without: `> "${WINDLASS_REPORT:-/dev/null}"`.
pub(super) const PATH: (&str, &str) = ("WINDLASS_REPORT", "/dev/fd/3");
/// The longest checkpoint: the next attempt gets it in its environment, where Linux takes 128 KiB.
const MOST_CHECKPOINT: usize = 64 * 1024;
/// What is longer is left out, to its end.
const LONGEST_LINE: usize = MOST_CHECKPOINT + 64;

/// What a pipe holds at most.
const MOST_LEFT: usize = 64 * 1024;

/// Reads what one program says.
pub(super) struct Said {
    input: Receiver,
    /// So that it is open for as long as the program runs, whoever of it writes and closes.
    _open: Sender,
    /// A file while the program runs: a shell opens nothing else without code that we may not write.
    path: TempPath,
    context: Context,
    /// The beginning of a line whose end is yet to come.
    begun: Vec<u8>,
}

impl Said {
    /// For the program of this job. Where no pipe can be made (nothing may be written to the temporary folder), it goes without.
    pub(super) fn of(context: &Context) -> Option<Self> {
        let open = |path: &Path| {
            make_pipe(path)?;
            let input = OpenOptions::new().open_receiver(path)?;
            Ok((input, OpenOptions::new().open_sender(path)?))
        };
        let made = tempfile::Builder::new().prefix("windlass-").make(open);
        let made = made.inspect_err(|error| {
            warn!(%error, "programs cannot say anything of their jobs: no pipe can be made");
        });
        let ((input, open), path) = made.ok()?.into_parts();
        Some(Self { input, _open: open, path, context: context.clone(), begun: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads until the program has ended and all is read that it said before.
    pub(super) async fn read(mut self, ended: CancellationToken) {
        let mut chunk = vec![0; 8 * 1024];
        loop {
            let count = tokio::select! {
                read = self.input.read(&mut chunk) => read.unwrap_or_default(),
                () = ended.cancelled() => break,
            };
            if count == 0 {
                break;
            }
            self.take(&chunk[..count]).await;
        }
        // Past what the runtime knows to be readable: the news that a program ended may come before the news of its last words.
        let mut left = MOST_LEFT; // what it left running may go on writing
        while left > 0
            && let Ok(count @ 1..) = rustix::io::read(&self.input, &mut chunk)
        {
            left = left.saturating_sub(count);
            self.take(&chunk[..count]).await;
        }
        if !self.begun.is_empty() {
            self.take(b"\n").await;
        }
    }

    async fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.begun);
            let said = match line.len() {
                0..=LONGEST_LINE => self.say(&String::from_utf8_lossy(&line)).await,
                _ => Err(format!("a line of more than {LONGEST_LINE} bytes")),
            };
            if let Err(why) = said {
                // Not what the line says: it may be secret.
                warn!(id = %self.context.id(), why, "what a program said of its job was left out");
                self.context.log(format!("left out what the program said: {why}"));
            }
        }
        self.keep(bytes);
    }

    /// Keeps no more of a line than tells that it is too long.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST_LINE + 1).saturating_sub(self.begun.len());
        self.begun.extend(&bytes[..bytes.len().min(room)]);
    }

    async fn say(&self, line: &str) -> Result<(), String> {
        let line = line.trim_end();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let said = match word {
            "" => Ok(()),
            "progress" => self.context.progress(progress(rest)?),
            "log" => {
                self.context.log(rest);
                Ok(())
            }
            "checkpoint" => self.context.checkpoint(&checkpoint(rest)?).await,
            _ => return Err("a line begins with progress, log or checkpoint".to_owned()),
        };
        said.map_err(|error| error.to_string())
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// There is no call for it that is safe.
#[cfg(target_vendor = "apple")]
fn make_pipe(path: &Path) -> io::Result<()> {
    let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(path).status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other(format!("mkfifo: {made}"))) }
}

/// `40`, or `40 page 3 of 10`.
fn progress(text: &str) -> Result<Progress, String> {
    let (percent, note) = text.trim_start().split_once(' ').unwrap_or((text.trim_start(), ""));
    let percent: f64 = percent
        .parse()
        .map_err(|_| "progress takes a number from 0 to 100, and a note after it".to_owned())?;
    Ok(match note.trim_start() {
        "" => Progress::from(percent),
        note => Progress::from((percent, note)),
    })
}

/// JSON as it is, anything else as a string.
fn checkpoint(text: &str) -> Result<Args, String> {
    const { assert!(MOST_CHECKPOINT <= Limits::MAX_CHECKPOINT_BYTES) };
    let value = match text.trim() {
        "" => return Err("checkpoint takes a value".to_owned()),
        text => Args::parse(text).or_else(|_| Args::of(&text.replace('\0', "\u{fffd}"))),
    };
    let value = value.map_err(|error| error.to_string())?;
    match value.as_str().len() {
        ..=MOST_CHECKPOINT => Ok(value),
        bytes => Err(format!("a checkpoint of {bytes} bytes; a program's has {MOST_CHECKPOINT} at most")),
    }
}

/// What an attempt before kept, as a program gets it: a string as its text, anything else as JSON.
pub(super) fn kept(checkpoint: &Args) -> String {
    serde_json::from_str(checkpoint.as_str()).unwrap_or_else(|_| checkpoint.as_str().to_owned())
}
