use crate::{
    duration,
    failure::{Failure, Outcome},
};
use std::{
    io::{self, Write},
    time::Duration,
};
use windlass::{Conflict, JobId, OnConflict, Unique};

/// Whether and how the job is unique.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Unique by this key: not stored while another job of its kind has it. Prints the id of the job that has the key, and on stderr what became of the two
    #[arg(long, value_name = "KEY", group = "unique")]
    unique_key: Option<String>,
    /// Unique by all of its args
    #[arg(long, group = "unique")]
    unique_args: bool,
    /// Unique by these fields of its args: user,day
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', group = "unique")]
    unique_fields: Option<Vec<String>>,
    /// Unique among the jobs of its queue, not of its kind
    #[arg(long, requires = "unique")]
    unique_in_queue: bool,
    /// Until a worker takes it, not until it is finished
    #[arg(long, requires = "unique", conflicts_with = "unique_for")]
    unique_until_started: bool,
    /// For so long after the enqueue, whatever becomes of the job: 5m
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "unique")]
    unique_for: Option<Duration>,
    /// What to do when another job has the key: keep it; replace it while it waits; extend its time; error
    #[arg(long, value_enum, default_value = "keep", requires = "unique")]
    on_conflict: Rule,
    /// With --on-conflict replace: the job is not put off further than this after its first enqueue
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "unique")]
    max_wait: Option<Duration>,
}

/// Tells on stderr what became of the job where another one had its key: stdout has the id that scripts read.
pub(super) fn tell(id: JobId, conflict: Option<Conflict>) {
    let Some(conflict) = conflict else { return };
    let what = match conflict {
        Conflict::Kept => "has the key and was kept; this one was not stored",
        Conflict::Replaced => "is this one, in the place of the one that had the key",
        Conflict::Extended => "has the key, and its time was extended; this one was not stored",
        _ => "has the key",
    };
    // What was done is done where nobody can read it.
    let _ = writeln!(io::stderr(), "job {id} {what}");
}

/// What to do when another job has the key.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Rule {
    Keep,
    Replace,
    Extend,
    Error,
}

impl Options {
    /// The description; `None` for a job that is not unique.
    pub(crate) fn description(&self) -> Outcome<Option<Unique>> {
        let unique = match (&self.unique_key, &self.unique_fields) {
            (Some(key), _) => Unique::by_key(key),
            (None, Some(fields)) => Unique::by_fields(fields),
            (None, None) if self.unique_args => Unique::by_args(),
            (None, None) => return Ok(None),
        };
        let unique = if self.unique_in_queue { unique.in_queue() } else { unique };
        let unique = match self.unique_for {
            Some(window) => unique.for_window(window),
            None if self.unique_until_started => unique.until_started(),
            None => unique,
        };
        if self.max_wait.is_some() && !matches!(self.on_conflict, Rule::Replace) {
            return Err(Failure::usage("usage", "--max-wait goes with --on-conflict replace"));
        }
        Ok(Some(unique.on_conflict(self.on_conflict.with_max_wait(self.max_wait))))
    }
}

impl Rule {
    fn with_max_wait(self, max_wait: Option<Duration>) -> OnConflict {
        match self {
            Self::Keep => OnConflict::Keep,
            Self::Replace => OnConflict::Replace { max_wait },
            Self::Extend => OnConflict::Extend,
            Self::Error => OnConflict::Error,
        }
    }
}
