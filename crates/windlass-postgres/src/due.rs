use jiff::Timestamp;
use std::time::{Duration, Instant};

/// How often promotion looks from the beginning, at most: for jobs that were committed long after they were due.
const FROM_THE_BEGINNING_EVERY: Duration = Duration::from_secs(10);
/// And so many times longer than such a look took.
const SHARE: u32 = 1_000;
/// But at least so often: a look may also take long because it waited, for a connection or a lock.
const FROM_THE_BEGINNING_AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// A place in the order of due times: when, and the job's id.
type Position = (Timestamp, i64);

/// From where this process looks for due jobs. Those before were promoted; while an old transaction is open their index
/// entries are still there, and every look from the beginning would walk them.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// What the last look answered, and until when it may be used.
    last: Option<(Position, Instant)>,
}

impl Due {
    /// Where to begin; `None`: at the beginning.
    pub(crate) fn position(&self) -> Option<Position> {
        let (position, until) = self.last?;
        (Instant::now() < until).then_some(position)
    }

    /// A look has ended; `from_the_beginning`: how long it took, where it was such a one.
    pub(crate) fn looked(&mut self, position: Position, from_the_beginning: Option<Duration>) {
        let until = match (from_the_beginning, self.last) {
            (None, Some((_, until))) => until,
            // Forgotten while it was under way.
            (None, None) => return,
            (Some(took), _) => {
                let rest = took * SHARE;
                Instant::now() + rest.clamp(FROM_THE_BEGINNING_EVERY, FROM_THE_BEGINNING_AT_LEAST_EVERY)
            }
        };
        self.last = Some((position, until));
    }

    /// The next look begins at the beginning: the database may be another one, restored from a dump.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}
