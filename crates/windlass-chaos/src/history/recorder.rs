use super::{Event, What, now_ns};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// The first line of a history file.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    /// The number of the process.
    pub(super) process: i64,
}

/// Appends the events of one process to its file. Every call is one `write` to an append-only file, so
/// threads need no lock and a killed process leaves whole lines, but perhaps for the last.
#[derive(Debug)]
pub struct Recorder {
    file: File,
}

impl Recorder {
    /// Begins the file of a process. `number` is unique in the run: each start of a process has its own.
    ///
    /// # Errors
    /// When the file exists already or cannot be written.
    pub fn create(path: &Path, number: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        (&file).write_all(&line(&Header { process: number.cast_signed() }))?;
        Ok(Self { file })
    }

    /// Notes one thing that happened now.
    ///
    /// # Panics
    /// When the file cannot be written: a history with holes proves nothing.
    pub fn note(&self, what: What) {
        self.write(&line(&Event { at: now_ns(), what }));
    }

    /// Notes several things that happened now, with one `write`.
    ///
    /// # Panics
    /// As [`Self::note`].
    pub fn note_all(&self, all: impl IntoIterator<Item = What>) {
        let at = now_ns();
        let bytes: Vec<u8> = all.into_iter().flat_map(|what| line(&Event { at, what })).collect();
        self.write(&bytes);
    }

    fn write(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            (&self.file).write_all(bytes).expect("the history can be written; is the disk full?");
        }
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("events are plain values");
    line.push(b'\n');
    line
}
