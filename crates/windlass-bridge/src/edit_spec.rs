//! A change of jobs as data: what bindings and the HTTP API send.

use crate::job_spec::said;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use windlass::{Args, Error, ErrorKind, JobEdit, Result};

/// What to change of a job. Unknown fields are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditSpec<'a> {
    #[serde(default)]
    now: bool,
    delay_ms: Option<u64>,
    scheduled_at: Option<Timestamp>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    #[serde(borrow, default, deserialize_with = "said")]
    args: Option<&'a RawValue>,
}

impl EditSpec<'_> {
    /// The edit.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for times that exclude each other, [`ErrorKind::InvalidArgs`] for args that are none.
    pub fn edit(self) -> Result<JobEdit> {
        let mut edit = match (self.now, self.delay_ms, self.scheduled_at) {
            (false, None, None) => JobEdit::new(),
            (true, None, None) => JobEdit::new().with_no_delay(),
            (false, Some(delay), None) => JobEdit::new().with_delay(Duration::from_millis(delay)),
            (false, None, Some(at)) => JobEdit::new().with_scheduled_at(at),
            _ => {
                let message = "now, delay_ms and scheduled_at exclude each other";
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        };
        if let Some(queue) = self.queue {
            edit = edit.with_queue(queue);
        }
        if let Some(priority) = self.priority {
            edit = edit.with_priority(priority);
        }
        if let Some(max_attempts) = self.max_attempts {
            edit = edit.with_max_attempts(max_attempts);
        }
        Ok(match self.args {
            Some(args) => edit.with_args(Args::parse(args.get())?),
            None => edit,
        })
    }
}
