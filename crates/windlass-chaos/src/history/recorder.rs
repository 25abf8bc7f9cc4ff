use super::{Event, What, now_ns};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// What a history file begins with; the last byte is the version of the format.
pub const MAGIC: [u8; 8] = *b"WLHIST\x00\x01";
/// The magic and the number of the process, 8 bytes each.
pub const HEADER_BYTES: usize = 16;

/// Appends the events of one process to its file. Every call is one `write` to an append-only file, so
/// threads need no lock and a killed process leaves whole records.
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
        let mut file = OpenOptions::new().append(true).create_new(true).open(path)?;
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..].copy_from_slice(&number.to_le_bytes());
        file.write_all(&header)?;
        Ok(Self { file })
    }

    /// Notes one thing that happened now.
    ///
    /// # Panics
    /// When the file cannot be written: a history with holes proves nothing.
    pub fn note(&self, what: What) {
        self.write(&Event { at: now_ns(), what }.encode());
    }

    /// Notes several things that happened now, with one `write`.
    ///
    /// # Panics
    /// As [`Self::note`].
    pub fn note_all(&self, all: impl IntoIterator<Item = What>) {
        let at = now_ns();
        let bytes: Vec<u8> = all.into_iter().flat_map(|what| Event { at, what }.encode()).collect();
        self.write(&bytes);
    }

    fn write(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            (&self.file).write_all(bytes).expect("the history can be written; is the disk full?");
        }
    }
}
