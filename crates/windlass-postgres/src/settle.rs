use crate::{
    claim::Reference, completions::Completions, database::Database, error::Effect, query::Query,
    results::Results, row::Json,
};
use serde::Serialize;
use std::time::Duration;
use tokio_postgres::types::Type;
use windlass_core::{
    Args, Disposition, Error, ErrorKind, Exception, Limits, Result, SettleReply, SettleRequest, Settled,
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
    if let Some(results) = Results::of(&request.exceptions)
        && let Some(reply) = with_results(db, on, request, &results).await?
    {
        return Ok(reply);
    }
    let mut done = Completions::default();
    done.extend(&request.completions);
    let outcomes = outcomes(request.exceptions.iter())?;
    let outcomes = outcomes.as_deref().map(Json);
    // Idempotent: the same call again changes nothing.
    let row = on
        .query_one(&db.texts.settle, &done.params(&request.worker.0, &outcomes), Effect::Repeatable)
        .await?;
    let codes: Vec<i16> = row.get(0);
    let mut replies = codes.into_iter().map(settled);
    Ok(SettleReply {
        completions: replies.by_ref().take(request.completions.len()).collect::<Result<_>>()?,
        exceptions: replies.collect::<Result<_>>()?,
    })
}

/// Settles a request in which jobs completed with results. `None`: the store wrote nothing, and wants each of them named
/// by itself.
async fn with_results(
    db: &Database,
    on: &impl Query,
    request: &SettleRequest,
    results: &Results<'_>,
) -> Result<Option<SettleReply>> {
    let mut done = Completions::default();
    results.add_entries(&mut done);
    done.extend(&request.completions);
    let outcomes = outcomes(results.others.iter().map(|(_, exception)| *exception))?;
    let outcomes = outcomes.as_deref().map(Json);
    let rows: Vec<Json<'_>> = results.results.iter().map(|row| Json(row)).collect();
    let mut params = done.params(&request.worker.0, &outcomes);
    params.extend([
        (&results.positions as _, Type::INT8_ARRAY),
        (&results.of as _, Type::INT4_ARRAY),
        (&results.last as _, Type::INT8_ARRAY),
        (&results.jobs as _, Type::TEXT_ARRAY),
        (&rows as _, Type::JSON_ARRAY),
    ]);
    let answer = on.query_one(&db.texts.settle_with_results, &params, Effect::Repeatable).await;
    let row = match answer {
        // The schema is older than this program.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => return Ok(None),
        answer => answer?,
    };
    let Some(codes) = row.get::<_, Option<Vec<i16>>>(0) else { return Ok(None) };
    let statuses = codes.into_iter().map(settled).collect::<Result<_>>()?;
    Ok(Some(results.reply(statuses, request.completions.len())))
}

/// `settle`'s parameter of that name.
fn outcomes<'a>(exceptions: impl Iterator<Item = &'a Exception>) -> Result<Option<String>> {
    let outcomes: Vec<_> = exceptions.map(Outcome::from).collect();
    let json = (!outcomes.is_empty()).then(|| serde_json::to_string(&outcomes)).transpose();
    json.map_err(|cause| Error::new(ErrorKind::Internal, format!("cannot write a settlement: {cause}")))
}

fn settled(code: i16) -> Result<Settled> {
    match code {
        0 => Ok(Settled::Accepted),
        1 => Ok(Settled::Already),
        2 => Ok(Settled::Refused),
        _ => Err(Error::new(ErrorKind::Internal, format!("settle answered {code}"))),
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
            // A snooze with an error: definitions that are older than this keep such a job, too.
            Disposition::Undecryptable { delay, error } => {
                let text = storable(error);
                Self { disposition: "snooze", delay_ms: milliseconds(*delay), text, failed: true, ..plain }
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
    u64::try_from(delay.min(Limits::LONGEST).as_millis()).unwrap_or(u64::MAX)
}
