use super::{Event, recorder::Header};
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
    /// Bytes at the end that are no whole line: the process died while it wrote.
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
    /// When a line is not what a recorder writes. Never panics.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let mut log = Self { number: -1, name: name.to_owned(), events: Vec::new(), torn_bytes: bytes.len() };
        // Without a whole line it was killed before it could begin.
        let Some(whole) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Ok(log) };
        log.torn_bytes -= whole + 1;
        for (nth, line) in (1..).zip(bytes[..whole].split(|byte| *byte == b'\n')) {
            let wrong = || format!("line {nth} is no {}", if nth == 1 { "header" } else { "event" });
            if nth == 1 {
                log.number = serde_json::from_slice::<Header>(line).with_context(wrong)?.process;
            } else {
                log.events.push(serde_json::from_slice(line).with_context(wrong)?);
            }
        }
        Ok(log)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Recorder, What};

    #[test]
    fn a_process_that_died_while_it_wrote_leaves_all_but_its_last_event() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("p.history");
        let recorder = Recorder::create(&path, 7).expect("begins");
        recorder.note(What::EnqueueSent { key: i64::MIN });
        recorder.note_all((0..3).map(|key| What::EnqueueAcked { key, id: i64::MAX }));
        let bytes = fs::read(&path).expect("is there");
        let all = ProcessLog::parse("p", &bytes).expect("reads");
        assert_eq!((all.number, all.events.len(), all.torn_bytes), (7, 4, 0));
        for end in 0..bytes.len() {
            let torn = ProcessLog::parse("p", &bytes[..end]).expect("reads");
            let lines = bytes[..end].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(torn.events, all.events[..lines.saturating_sub(1)]);
            assert_eq!(torn.number, if lines > 0 { 7 } else { -1 });
            assert_eq!(torn.torn_bytes > 0, end > 0 && bytes[end - 1] != b'\n');
        }
    }

    #[test]
    fn a_damaged_line_is_told() {
        let parse = |text: &str| ProcessLog::parse("p", text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(parse("{\"process\":7}\n{\"at\":1}\n").expect_err("no event"), "line 2 is no event");
        assert_eq!(parse("\n{\"at\":1").expect_err("no header"), "line 1 is no header");
    }
}
