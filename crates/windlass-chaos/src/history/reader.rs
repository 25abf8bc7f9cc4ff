use super::{DecodeError, Event, HEADER_BYTES, MAGIC, RECORD_BYTES};
use anyhow::{Context as _, Result};
use std::{fs, path::Path};

/// The events of one process.
#[derive(Clone, Debug)]
pub struct ProcessLog {
    /// Its number in the run.
    pub number: i64,
    /// Its file's name without the ending: `worker-3.2` is the second start of the third worker.
    pub name: String,
    /// What it did, in its own order.
    pub events: Vec<Event>,
    /// Bytes at the end that are no whole record: the process died while it wrote.
    pub torn_bytes: usize,
}

/// One event with the process that noted it: an index into [`History::processes`].
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Who noted it.
    pub process: u32,
    /// What and when.
    pub event: Event,
}

/// Everything that the processes of a run noted, in the order it happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Number and name of each process.
    pub processes: Vec<(i64, String)>,
    /// All events by time.
    pub events: Vec<Recorded>,
}

impl ProcessLog {
    /// Reads the bytes of a history file.
    ///
    /// # Errors
    /// When it does not begin as one, or has a record that means nothing. Never panics.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.is_empty() {
            // Killed before it could begin.
            return Ok(Self { number: -1, name: name.to_owned(), events: Vec::new(), torn_bytes: 0 });
        }
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(DecodeError(format!("{} bytes are too few for a header", bytes.len())));
        };
        if header[..8] != MAGIC {
            return Err(DecodeError("the file does not begin as a history of this version".to_owned()));
        }
        let mut number = [0; 8];
        number.copy_from_slice(&header[8..]);
        let (records, torn) = body.as_chunks::<RECORD_BYTES>();
        let events = records.iter().map(Event::decode).collect::<Result<_, _>>()?;
        Ok(Self { number: i64::from_le_bytes(number), name: name.to_owned(), events, torn_bytes: torn.len() })
    }
}

impl History {
    /// Reads every `*.history` file of a folder.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged, by name.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut logs = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_none_or(|ending| ending != "history") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            logs.push(ProcessLog::parse(&name, &bytes).with_context(|| format!("in {}", path.display()))?);
        }
        logs.sort_by_key(|log: &ProcessLog| log.number);
        Ok(Self::of(logs))
    }

    /// Puts the logs of processes together.
    pub fn of(logs: Vec<ProcessLog>) -> Self {
        let mut history = Self::default();
        for (process, log) in (0..).zip(logs) {
            history.processes.push((log.number, log.name));
            history.events.extend(log.events.into_iter().map(|event| Recorded { process, event }));
        }
        // Stable: what one process noted at the same nanosecond stays in its order.
        history.events.sort_by_key(|recorded| recorded.event.at);
        history
    }
}
