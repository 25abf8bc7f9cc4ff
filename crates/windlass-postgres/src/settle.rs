use crate::{claim::Reference, database::Database, error::Effect, query::Query, row::Json};
use serde::Serialize;
use std::time::Duration;
use tokio_postgres::types::Type;
use windlass_core::{
    Args, Completion, Disposition, Error, ErrorKind, Exception, JobSet, Limits, Result, SettleReply,
    SettleRequest, Settled,
};

/// An entry of `settle`'s last parameter; names as in `sql/functions/10_outcomes.sql`.
#[derive(Serialize)]
struct Outcome<'a> {
    lane: i32,
    seq: i64,
    token: i32,
    job: i64,
    xid: String,
    disposition: &'static str,
    delay_ms: u64,
    text: Option<String>,
    failed: bool,
    /// JSON as text, so that a result of `null` is told from none.
    result: Option<&'a str>,
}

/// `settle`'s other parameters: completions, and the ranges of those that have some.
#[derive(Default)]
struct Completions {
    lanes: Vec<i32>,
    seqs: Vec<i64>,
    tokens: Vec<i32>,
    /// How many jobs the ranges name; `None`: the rest of the claim.
    counts: Vec<Option<i32>>,
    /// Which entry, from 1, each range belongs to.
    entries: Vec<i32>,
    lows: Vec<i64>,
    highs: Vec<i64>,
}

/// Records what became of jobs.
pub(crate) async fn settle(db: &Database, request: &SettleRequest) -> Result<SettleReply> {
    let reply = settle_on(db, &db.settles("settle").await?, request).await?;
    db.caches.open_claims(request.worker, |open| open.settled(request, &reply));
    Ok(reply)
}

pub(crate) async fn settle_on(
    db: &Database,
    on: &impl Query,
    request: &SettleRequest,
) -> Result<SettleReply> {
    let done = Completions::of(&request.completions);
    let outcomes = match request.exceptions.as_slice() {
        [] => None,
        exceptions => Some(json(&exceptions.iter().map(Outcome::from).collect::<Vec<_>>())?),
    };
    let row = on
        .query_one(
            &db.texts.settle,
            &[
                (&request.worker.0, Type::INT4),
                (&done.lanes, Type::INT4_ARRAY),
                (&done.seqs, Type::INT8_ARRAY),
                (&done.tokens, Type::INT4_ARRAY),
                (&done.counts, Type::INT4_ARRAY),
                (&done.entries, Type::INT4_ARRAY),
                (&done.lows, Type::INT8_ARRAY),
                (&done.highs, Type::INT8_ARRAY),
                (&outcomes.as_deref().map(Json), Type::JSON),
            ],
            // Idempotent: the same call again changes nothing.
            Effect::Repeatable,
        )
        .await?;
    let codes: Vec<i16> = row.get(0);
    let mut replies = codes.into_iter().map(settled);
    Ok(SettleReply {
        completions: replies.by_ref().take(request.completions.len()).collect::<Result<_>>()?,
        exceptions: replies.collect::<Result<_>>()?,
    })
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("cannot write a settlement: {cause}")))
}

fn settled(code: i16) -> Result<Settled> {
    match code {
        0 => Ok(Settled::Accepted),
        1 => Ok(Settled::Already),
        2 => Ok(Settled::Refused),
        _ => Err(Error::new(ErrorKind::Internal, format!("settle answered {code}"))),
    }
}

impl Completions {
    fn of(completions: &[Completion]) -> Self {
        let mut all = Self::default();
        for (entry, Completion { claim, jobs, count }) in (1..).zip(completions) {
            let Reference { lane, seq, token } = (*claim).into();
            all.lanes.push(lane);
            all.seqs.push(seq);
            all.tokens.push(token);
            let JobSet::Ranges(ranges) = jobs else {
                all.counts.push(None);
                continue;
            };
            all.counts.push(Some(i32::try_from(*count).unwrap_or(i32::MAX)));
            for &(low, high) in ranges {
                all.entries.push(entry);
                all.lows.push(low);
                all.highs.push(high);
            }
        }
        all
    }
}

impl<'a> From<&'a Exception> for Outcome<'a> {
    fn from(exception: &'a Exception) -> Self {
        let Reference { lane, seq, token } = exception.claim.into();
        let plain = Self {
            lane,
            seq,
            token,
            job: exception.job.0,
            xid: exception.position.to_string(),
            // Also what a newer engine may send that is unknown here: nothing is lost by handing the job back.
            disposition: "return",
            delay_ms: 0,
            text: None,
            failed: false,
            result: None,
        };
        let storable = |text: &String| Some(Limits::storable_error(text));
        match &exception.disposition {
            Disposition::Complete { result } => {
                Self { disposition: "complete", result: result.as_ref().map(Args::as_str), ..plain }
            }
            Disposition::Retry { delay, error } => {
                let text = storable(error);
                Self { disposition: "retry", delay_ms: milliseconds(*delay), text, failed: true, ..plain }
            }
            Disposition::Snooze { delay } => {
                Self { disposition: "snooze", delay_ms: milliseconds(*delay), ..plain }
            }
            Disposition::Cancel { reason } => Self { disposition: "cancel", text: storable(reason), ..plain },
            Disposition::Discard { error, failed } => {
                Self { disposition: "discard", text: storable(error), failed: *failed, ..plain }
            }
            Disposition::NoHandler => Self { disposition: "no_handler", ..plain },
            _ => plain,
        }
    }
}

fn milliseconds(delay: Duration) -> u64 {
    let longest = Limits::MAX_DELAY_SECONDS * 1000;
    u64::try_from(delay.as_millis()).unwrap_or(longest).min(longest)
}
