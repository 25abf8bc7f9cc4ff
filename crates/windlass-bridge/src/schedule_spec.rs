//! A schedule as data: what bindings and the HTTP API send.

use crate::JobSpec;
use jiff::Timestamp;
use serde::Deserialize;
use std::time::Duration;
use windlass::{Error, ErrorKind, Missed, Overlap, Result, Schedule};

/// A schedule to declare. Unknown fields are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec<'a> {
    #[serde(default)]
    name: String,
    cron: String,
    zone: Option<String>,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    jitter_ms: Option<u64>,
    overlap: Option<Overlap>,
    missed: Option<Missed>,
    #[serde(borrow)]
    job: JobSpec<'a>,
}

impl ScheduleSpec<'_> {
    /// The same under this name, which is that of its own if it says one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for another one.
    pub fn named(mut self, name: &str) -> Result<Self> {
        if self.name.is_empty() {
            self.name = name.to_owned();
        }
        match self.name == name {
            true => Ok(self),
            false => {
                let message = format!(
                    "the definition is of schedule {:?}, not of {name:?}; leave its name out",
                    self.name
                );
                Err(Error::new(ErrorKind::InvalidOption, message))
            }
        }
    }

    /// The schedule.
    ///
    /// # Errors
    /// As [`JobSpec::job`]. The expression and the zone are checked when it is declared.
    pub fn schedule(self) -> Result<Schedule> {
        let mut schedule = Schedule::new(self.name, self.cron, self.job.job()?)
            .with_overlap(self.overlap.unwrap_or_default())
            .with_missed(self.missed.unwrap_or_default())
            .with_jitter(Duration::from_millis(self.jitter_ms.unwrap_or(0)));
        if let Some(zone) = self.zone {
            schedule = schedule.with_zone(zone);
        }
        if let Some(at) = self.starts_at {
            schedule = schedule.with_start(at);
        }
        Ok(match self.ends_at {
            Some(at) => schedule.with_end(at),
            None => schedule,
        })
    }
}
