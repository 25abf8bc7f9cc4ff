use super::task::{Act, Task};
use crate::keys;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Args, NewJob};

/// What a producer enqueues.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// What the jobs are like.
    pub mix: Mix,
    /// Jobs per second.
    pub rate: f64,
    /// Jobs per call at most; some calls have one only.
    pub batch: usize,
    /// Ends after so many jobs; none: when it is told to.
    pub count: Option<u64>,
    /// Enqueues under idempotency keys and repeats until the answer is known.
    pub once: bool,
    /// Some jobs go through transactions of its own, and some of those are rolled back; some jobs complete in
    /// transactions of their handlers. PostgreSQL only.
    pub transactions: bool,
    /// Cancels and retries some jobs by their ids.
    pub meddles: bool,
    /// Takes back many jobs at a time: cancels, edits and deletes all of its queue, by filter.
    #[serde(default)]
    pub sweeps: bool,
    /// All its jobs are unique until they are finished, under so many keys, which all producers share; 0: none is.
    #[serde(default)]
    pub unique_keys: u32,
    /// They have these keys for so many milliseconds instead, whatever becomes of them; 0: as said.
    #[serde(default)]
    pub window_ms: u64,
    /// Its unique jobs wait a while, and take the place of those that do under their key; these are keys of their own.
    #[serde(default)]
    pub replaces: bool,
    /// Some of its jobs that find their key taken make its window begin anew.
    #[serde(default)]
    pub extends: bool,
    /// Each of its jobs has one of so many keys, which follows from its number; 0: none has.
    #[serde(default)]
    pub keys: u32,
    /// One of them has nearly all jobs.
    #[serde(default)]
    pub loud: bool,
    /// Some of its jobs are not to be started later than some time.
    #[serde(default)]
    pub expires: bool,
    /// Waits for the ends of some of its jobs.
    #[serde(default)]
    pub waits: bool,
    /// How many connections enqueue side by side.
    pub lanes: u32,
    /// The queue.
    pub queue: String,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            mix: Mix::Plain,
            rate: 500.0,
            batch: 20,
            count: None,
            once: false,
            transactions: false,
            meddles: false,
            sweeps: false,
            unique_keys: 0,
            window_ms: 0,
            replaces: false,
            extends: false,
            keys: 0,
            loud: false,
            expires: false,
            waits: false,
            lanes: 1,
            queue: "default".to_owned(),
        }
    }
}

/// What jobs are like.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Mix {
    /// Nothing to do.
    Plain,
    /// Everything that a job can do, mostly short.
    Varied,
    /// Short ones, many of which fail at first, or return something.
    Failing,
    /// Jobs of between so many milliseconds.
    Long(u64, u64),
    /// One of so many kills its worker or eats its memory; the rest is plain.
    Poison(i64),
}

impl Load {
    /// Says whom the job with this number is about.
    pub fn about(&self, job: NewJob, number: i64) -> NewJob {
        match self.keys {
            0 => job,
            count if self.loud => job.with_key(keys::name_of(keys::key_beside_a_loud_one(number, count))),
            count => job.with_key(keys::name_of(keys::key_of(number, count))),
        }
    }

    /// One job.
    pub fn job(&self, key: i64, rng: &mut Rng) -> NewJob {
        let act = match self.transactions && rng.u32(0..12) == 0 {
            true => Act::Effect(rng.u64(0..40)),
            false => self.mix.act(key & 0xffff_ffff, rng),
        };
        self.mix.job(&Task { key, act }, &self.queue, rng)
    }
}

impl Mix {
    fn act(self, key: i64, rng: &mut Rng) -> Act {
        match self {
            Self::Plain => Act::Done,
            Self::Long(least, most) => Act::Sleep(rng.u64(least..=most)),
            Self::Poison(one_of) if key % one_of == one_of / 2 => match rng.u32(0..3) {
                0 => Act::Allocate,
                _ => Act::Abort(rng.u16(1..=9)),
            },
            Self::Poison(_) => Act::Done,
            Self::Failing => match rng.u32(0..100) {
                0..50 => Act::Done,
                50..60 => Act::Return,
                60..70 => Act::Checkpoint(rng.u16(1..=3)),
                70..90 => Act::Fail(rng.u16(1..=3)),
                _ => Act::Sleep(rng.u64(1..=30)),
            },
            Self::Varied => match rng.u32(0..100) {
                0..60 => Act::Done,
                60..70 => Act::Return,
                70..75 => Act::Sleep(rng.u64(1..=30)),
                75..80 => Act::Checkpoint(rng.u16(1..=3)),
                80..86 => Act::Fail(rng.u16(1..=3)),
                86..88 => Act::Panic,
                88..92 => Act::Snooze(rng.u64(20..=300)),
                92..94 => Act::Cancel,
                94..96 => Act::Discard,
                _ => Act::Sleep(rng.u64(100..=400)),
            },
        }
    }

    fn job(self, task: &Task, queue: &str, rng: &mut Rng) -> NewJob {
        let varied = matches!(self, Self::Varied);
        let kind = if varied && rng.u32(0..40) == 0 { "rare" } else { "work" };
        let args = Args::of(task).expect("a task is JSON");
        let mut job = NewJob::new(kind, args).with_queue(queue.to_owned());
        if varied && rng.u32(0..10) == 0 {
            job = job.with_priority(rng.i16(-1..=1));
        }
        if varied && rng.u32(0..15) == 0 {
            job = job.with_delay(Duration::from_millis(rng.u64(1..=400)));
        }
        job
    }
}
