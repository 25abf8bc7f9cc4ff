//! What workers say and are told, as JSON.

use super::{
    Member,
    member::Left,
    reports::{Report, reports},
};
use crate::{
    few::at_most,
    problem::{Problem, pointer_token, wrong_at},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, time::Duration};
use windlass::{
    Args, Error, Outcome, Timestamp,
    remote::{Beat, HandIn, RemoteJob, Settled},
};

/// How long a turn may wait for jobs, in seconds.
const MOST_WAIT: u64 = 30;
/// The most outcomes of one turn: ten times as many as a worker has jobs.
const MOST_DONE: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TurnBody {
    #[serde(default, deserialize_with = "reports")]
    pub(super) reports: Vec<Report>,
    #[serde(default, deserialize_with = "done")]
    done: Vec<Done>,
    want: Option<BTreeMap<String, usize>>,
    #[serde(default)]
    wait_s: u64,
    #[serde(default)]
    pub(super) again: bool,
    pub(super) memory_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    receipt: String,
    outcome: Said,
    error: Option<String>,
    reason: Option<String>,
    after_ms: Option<u64>,
    result: Option<Box<RawValue>>,
}

fn done<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Done>, D::Error> {
    at_most(list, MOST_DONE, format_args!("must be at most {MOST_DONE}, got more"))
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Complete,
    Retry,
    Snooze,
    Cancel,
    Discard,
}

impl TurnBody {
    /// What is done, by the worker's tickets.
    pub(super) fn hand_ins(&mut self, member: &Member) -> Result<Vec<HandIn>, Problem> {
        let done = std::mem::take(&mut self.done).into_iter().enumerate();
        let hand_in = |(at, done): (usize, Done)| {
            let ticket = member.ticket(&done.receipt);
            let wrong = |(field, what)| wrong_at(&format!("/done/{at}/{field}"), what);
            let outcome = match done.outcome().map_err(wrong)? {
                Outcome::Complete(Some(result)) => member
                    .seal(ticket, Left::Result, result)
                    .map_or_else(|error| unstorable(&error), |sealed| Outcome::Complete(Some(sealed))),
                other => other,
            };
            Ok(HandIn { ticket, outcome })
        };
        done.map(hand_in).collect()
    }

    /// What is wanted of which queue; `None`: as much as there is room for.
    pub(super) fn want(&self, member: &Member) -> Result<Option<Vec<(String, usize)>>, Problem> {
        let Some(want) = &self.want else { return Ok(None) };
        let queues = &member.remote.spec().queues;
        if let Some(other) = want.keys().find(|queue| !queues.iter().any(|known| known.queue == **queue)) {
            let what = format!("the worker did not register for queue {other:?}");
            return Err(wrong_at(&format!("/want/{}", pointer_token(other)), what));
        }
        Ok(Some(
            want.iter()
                .filter(|(_, count)| **count > 0)
                .map(|(queue, count)| (queue.clone(), *count))
                .collect(),
        ))
    }

    pub(super) fn wait(&self) -> Result<Duration, Problem> {
        match self.wait_s {
            0..=MOST_WAIT => Ok(Duration::from_secs(self.wait_s)),
            other => Err(wrong_at("/wait_s", format!("must be 0 to {MOST_WAIT}, got {other}"))),
        }
    }
}

impl Done {
    fn outcome(self) -> Result<Outcome, (&'static str, String)> {
        let missing = |field, of| (field, format!("is missing; the outcome {of} needs it"));
        let after =
            self.after_ms.map(windlass_bridge::delay_of).transpose().map_err(|what| ("after_ms", what))?;
        Ok(match self.outcome {
            Said::Complete => match self.result.filter(|result| result.get() != "null") {
                None => Outcome::Complete(None),
                Some(result) => Args::parse(result.get())
                    .map_or_else(|error| unstorable(&error), |result| Outcome::Complete(Some(result))),
            },
            Said::Retry => {
                Outcome::Retry { after, error: self.error.ok_or_else(|| missing("error", "retry"))? }
            }
            Said::Snooze => Outcome::Snooze(after.ok_or_else(|| missing("after_ms", "snooze"))?),
            Said::Cancel => Outcome::Cancel(self.reason.ok_or_else(|| missing("reason", "cancel"))?),
            Said::Discard => Outcome::Discard(self.error.ok_or_else(|| missing("error", "discard"))?),
        })
    }
}

/// A result depends on a job's data, so one that no store takes is that job's failure, as in the engine and over stdio; the turn's others are settled.
fn unstorable(error: &Error) -> Outcome {
    Outcome::Retry { after: None, error: format!("the result cannot be stored: {error}") }
}

/// What a turn is answered with.
#[derive(Serialize)]
pub(crate) struct TurnAnswer {
    /// Of each report; left out where there was none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reported: Vec<&'static str>,
    settled: Vec<&'static str>,
    jobs: Vec<JobAnswer>,
    cancel: Vec<String>,
    /// It gets no more jobs, and is to end when it has none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    drain: bool,
}

#[derive(Serialize)]
struct JobAnswer {
    receipt: String,
    id: String,
    kind: String,
    args: Args,
    queue: String,
    priority: i16,
    attempt: u16,
    max_attempts: u16,
    enqueued_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Args>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Args>,
    /// Its args are encrypted in the store, as will be what the worker leaves.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    encrypted: bool,
}

impl TurnAnswer {
    /// The answer; the other half are jobs that cannot be told.
    pub(super) fn new(
        member: &Member,
        settled: &[Settled],
        jobs: impl Iterator<Item = (RemoteJob, Option<Args>)>,
        beat: &Beat,
    ) -> (Self, Vec<HandIn>) {
        let word = |settled: &Settled| match settled {
            Settled::Accepted => "accepted",
            Settled::Already => "already",
            Settled::Refused => "refused",
        };
        let (mut told, mut untold) = (Vec::new(), Vec::new());
        for (job, checkpoint) in jobs {
            let ticket = job.ticket;
            match JobAnswer::new(member, job, checkpoint) {
                Ok(job) => told.push(job),
                Err(outcome) => untold.push(HandIn { ticket, outcome }),
            }
        }
        let (settled, cancel) = (settled.iter().map(word).collect(), receipts(member, beat));
        let answer = Self { reported: Vec::new(), settled, jobs: told, cancel, drain: beat.drain };
        (answer, untold)
    }
}

/// Which of its jobs are to stop.
pub(crate) fn receipts(member: &Member, beat: &Beat) -> Vec<String> {
    beat.cancel.iter().map(|ticket| member.receipt(*ticket)).collect()
}

impl JobAnswer {
    /// Or what becomes of a job that cannot be told.
    fn new(member: &Member, mut given: RemoteJob, mut checkpoint: Option<Args>) -> Result<Self, Outcome> {
        let encrypted = member.open(&mut given, &mut checkpoint)?;
        let RemoteJob { ticket, job, queue, priority, timeout } = given;
        let args = std::str::from_utf8(&job.args)
            .map_err(|error| Outcome::Discard(format!("the job's args are not UTF-8: {error}")))?;
        let untold = |error| Outcome::Discard(format!("the job's args cannot be told: {error}"));
        let args = Args::from_store(args).map_err(untold)?;
        let attributes = job.attributes.map(|attributes| *attributes).unwrap_or_default();
        Ok(Self {
            receipt: member.receipt(ticket),
            id: job.id.to_string(),
            kind: job.kind.to_string(),
            args,
            queue: queue.to_string(),
            priority,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            enqueued_at: job.enqueued_at,
            timeout_ms: timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            key: attributes.key,
            meta: attributes.meta,
            tags: attributes.tags,
            checkpoint,
            encrypted,
        })
    }
}
