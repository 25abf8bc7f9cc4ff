use crate::{
    jobs::{Alarm, Nap, Parcel, Question, Sums},
    measure::Timeline,
};
use std::{hint::black_box, sync::Arc};
use windlass::{Client, Error, IntoJob, NewJob, Timestamp, Unique};
use windlass_cli::{
    failure::Outcome,
    measure::{Fill, Filled, Noop},
    progress::Progress,
};

/// How many texts differ.
const SHIFTS: usize = 4_096;

/// The key of all of them.
const NOISY: &str = "noisy";

/// What the jobs of a case do.
#[derive(Clone)]
pub(crate) enum Load {
    /// Nothing.
    Noop,
    /// Nothing, but they carry so many characters.
    Parcel { text: Arc<str>, bytes: usize },
    /// Nothing, but they return so many characters.
    Question { bytes: usize },
    /// They wait.
    Nap { ms: u64 },
    /// They calculate.
    Sums { count: u64 },
    /// Nothing, each unique by its number until it has finished. The run: keys of other runs are others.
    Unique { run: u64 },
    /// Nothing, each of so many keys as many.
    Keyed { keys: u64 },
    /// Those of one key wait, or do nothing.
    Noise { ms: u64 },
    /// Nothing, at this time.
    Alarm(Timestamp),
}

impl Load {
    /// Nothing, but they carry `bytes` of text. The texts of two jobs differ and compress as badly as random
    /// letters, so that compression by the server does not help.
    pub(crate) fn carrying(bytes: usize) -> Self {
        if bytes == 0 {
            return Self::Noop;
        }
        Self::Parcel { text: letters(bytes).into(), bytes }
    }

    /// One job.
    fn job(&self, id: u64) -> Result<NewJob, Error> {
        match self {
            Self::Noop => Noop { id }.into_job(),
            Self::Parcel { text, bytes } => {
                Parcel { id, text: text_of(text, id, *bytes).to_owned() }.into_job()
            }
            Self::Question { bytes } => Question { id, bytes: *bytes }.into_job(),
            Self::Unique { run } => {
                Ok(Noop { id }.into_job()?.with_unique(Unique::by_key(format!("{run}-{id}"))))
            }
            Self::Keyed { keys } => Ok(Noop { id }.into_job()?.with_key(format!("key-{}", id % keys))),
            Self::Noise { ms: 0 } => Ok(Noop { id }.into_job()?.with_key(NOISY)),
            Self::Noise { ms } => Ok(Nap { id, ms: *ms }.into_job()?.with_key(NOISY)),
            Self::Nap { ms } => Nap { id, ms: *ms }.into_job(),
            Self::Sums { count } => Sums { id, count: *count }.into_job(),
            Self::Alarm(due) => {
                let job = Alarm { id, due_us: due.as_microsecond() }.into_job()?;
                Ok(job.with_scheduled_at(*due))
            }
        }
    }
}

/// Letters for texts of so many bytes, which compress badly.
pub(crate) fn letters(bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        // Xorshift64 (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..bytes + SHIFTS).map(letter).collect()
}

/// The text of one job.
pub(crate) fn text_of(letters: &str, id: u64, bytes: usize) -> &str {
    let from = (id % SHIFTS as u64) as usize;
    &letters[from..from + bytes]
}

/// Enqueues jobs. Returns how that went, and how many were enqueued in each second.
pub(crate) async fn fill(
    client: &Client,
    work: &Fill,
    load: Load,
    quiet: bool,
) -> Outcome<(Filled, Vec<u64>)> {
    let mut progress = Progress::new("enqueued", work.jobs, quiet);
    let mut timeline = Timeline::default();
    let look = |at, done| {
        timeline.record(at, done);
        progress.reach(done);
    };
    let filled = windlass_cli::measure::fill(client, work, move |id| load.job(id), look).await?;
    Ok((filled, timeline.per_second()))
}

/// The work of a job that calculates.
pub(crate) fn sums(count: u64) -> f64 {
    (0..count).map(|n| black_box(n as f64)).map(|x| x.sin() * x.cos()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_have_their_size_and_differ() {
        let load = Load::carrying(100);
        let args = |id| load.job(id).unwrap().args().as_str().to_owned();
        let text = |id| serde_json::from_str::<Parcel>(&args(id)).unwrap().text;
        assert_eq!(text(0).len(), 100);
        assert_eq!(text(5000).len(), 100);
        assert_ne!(text(0), text(1));
        assert!(matches!(Load::carrying(0), Load::Noop));
    }
}
