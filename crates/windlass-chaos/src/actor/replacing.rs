//! Jobs that take the place of those that wait under their unique key, for their time or in line.

use crate::{
    history::{Recorder, What},
    keys,
};
use fastrand::Rng;
use std::time::Duration;
use windlass::{Client, JobId, JobState, NewJob, OnConflict};

/// How long the jobs of every other key wait after the last of theirs, in milliseconds, and after the first at most; the others stand in line at once.
const WAIT_MS: std::ops::Range<u64> = 150..300;
const LONGEST: Duration = Duration::from_millis(400);

/// Such jobs, and what is noted before they are sent. Some of them leave what has the key where it is.
pub(super) fn jobs(keys: &[i64], jobs: Vec<NewJob>, count: u32, rng: &mut Rng) -> (Vec<What>, Vec<NewJob>) {
    let mut notes = Vec::with_capacity(keys.len() * 2);
    let of = |(key, mut job): (&i64, NewJob)| {
        let drawn = rng.u32(0..count);
        let number = keys::replaced_number(drawn);
        let unique = keys::unique_key(number);
        notes.push(What::UniqueSent { key: *key, unique: number.into() });
        if drawn.is_multiple_of(2) {
            job = job.with_delay(Duration::from_millis(rng.u64(WAIT_MS)));
        }
        if rng.u32(0..8) == 0 {
            return job.with_unique(unique);
        }
        notes.push(What::ReplaceSent { key: *key });
        job.with_unique(unique.on_conflict(OnConflict::Replace { max_wait: Some(LONGEST) }))
    };
    let jobs = keys.iter().zip(jobs).map(of).collect();
    (notes, jobs)
}

/// Notes until when a job is put off that waits for its time, and was put in the place of others.
pub(super) async fn look_at(id: JobId, client: &Client, recorder: &Recorder) {
    let Ok(Some(job)) = client.store().job(id).await else { return };
    // One that waits for another attempt does so for a reason of its own.
    let waits = job.state == JobState::Scheduled && job.attempt == 0;
    if let Some(due) = job.scheduled_at.filter(|_| waits) {
        let micros = |length: jiff::SignedDuration| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        let after_us = micros(due.duration_since(job.enqueued_at));
        recorder.note(What::PutOff { id: id.0, after_us, most_us: LONGEST.as_micros() as i64 });
    }
}
