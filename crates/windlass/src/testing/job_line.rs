use std::fmt;
use windlass_core::JobRecord;

/// How much of a job's args is shown, in characters.
const MOST_ARGS: usize = 200;

/// A job in one line, for people who read why a test failed.
pub(super) struct JobLine<'a>(pub(super) &'a JobRecord);

impl fmt::Display for JobLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobRecord { id, kind, args, state, queue, .. } = self.0;
        write!(f, "{id} {kind} ")?;
        match args.as_str().char_indices().nth(MOST_ARGS) {
            Some((end, _)) => write!(f, "{}…", &args.as_str()[..end])?,
            None => f.write_str(args.as_str())?,
        }
        write!(f, ": {state} in queue {queue:?}")?;
        if let Some(at) = self.0.scheduled_at {
            write!(f, " for {at}")?;
        }
        if let Some(error) = self.0.errors.last() {
            write!(f, ", attempt {} failed: {}", error.attempt, error.error)?;
        } else if let Some(reason) = &self.0.reason {
            write!(f, ", {reason}")?;
        }
        Ok(())
    }
}
