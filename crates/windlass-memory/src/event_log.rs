//! The list of events: a number for each.

use std::collections::VecDeque;
use windlass_core::{Error, ErrorKind, EventCursor, JobEvent, Result};

/// The most events that are kept, whatever the retention.
const MOST: usize = 1_000_000;

/// The events that are kept, and what tells this store's cursors from those of others.
#[derive(Debug)]
pub(crate) struct EventLog {
    name: u64,
    /// The number of the first that is kept.
    pub(crate) first: u64,
    pub(crate) kept: VecDeque<JobEvent>,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        Self { name: fastrand::u64(..), first: 1, kept: VecDeque::new() }
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Behind the event before this number.
    pub(crate) fn cursor(&self, number: u64) -> EventCursor {
        format!("m1/{:x}/{number}", self.name).into()
    }

    pub(crate) fn read(&self, cursor: &EventCursor) -> Result<u64> {
        match cursor.as_str() {
            "start" => return Ok(self.first),
            "now" => return Ok(self.end()),
            _ => {}
        }
        let parts = cursor.as_str().strip_prefix("m1/").and_then(|parts| parts.split_once('/'));
        let read = parts.and_then(|(name, number)| {
            Some((u64::from_str_radix(name, 16).ok()?, number.parse::<u64>().ok()?))
        });
        let Some((name, number)) = read else {
            let message = format!(
                "events cannot be read from {:?}; pass start, now, or a cursor as events gave it",
                cursor.as_str().chars().take(80).collect::<String>()
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        };
        let expired = |why| Err(Error::new(ErrorKind::EventsExpired, why));
        match number {
            _ if name != self.name || number > self.end() => {
                expired("the cursor is of another store; read on from start or from now")
            }
            _ if number < self.first => expired(
                "events behind this cursor were removed past their retention; read on from start, which misses them, or from now, and read in time",
            ),
            _ => Ok(number),
        }
    }

    pub(crate) fn push(&mut self, mut event: JobEvent) {
        event.cursor = self.cursor(self.end() + 1);
        self.kept.push_back(event);
        if self.kept.len() > MOST {
            self.kept.pop_front();
            self.first += 1;
        }
    }
}
