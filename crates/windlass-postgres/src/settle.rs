use crate::{claim::Reference, error::Effect, row::Json, store::PostgresStore};
use serde::Serialize;
use tokio_postgres::types::Type;
use windlass_core::{
    Args, Completion, Disposition, Error, ErrorKind, Exception, JobSet, Limits, Result, SettleReply,
    SettleRequest, Settled,
};

/// An entry of `settle`'s second parameter; names as in `sql/functions/09_settle.sql`.
#[derive(Serialize)]
struct Done {
    l: i32,
    s: i64,
    t: i32,
    n: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<Vec<i64>>,
}

/// An entry of its third.
#[derive(Serialize)]
struct Other {
    l: i32,
    s: i64,
    t: i32,
    j: i64,
    x: String,
    d: &'static str,
    ms: u64,
    e: Option<String>,
    f: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<Args>,
}

impl PostgresStore {
    pub(crate) async fn settle_jobs(&self, request: &SettleRequest) -> Result<SettleReply> {
        let done = json(&request.completions.iter().map(Done::from).collect::<Vec<_>>())?;
        let other = match request.exceptions.as_slice() {
            [] => None,
            exceptions => Some(json(&exceptions.iter().map(Other::from).collect::<Vec<_>>())?),
        };
        let row = self
            .connections
            .settles("settle")
            .await?
            .query_one(
                &self.texts.settle,
                &[
                    (&request.worker.0, Type::INT4),
                    (&Json(&done), Type::JSONB),
                    (&other.as_deref().map(Json), Type::JSON),
                ],
                // Idempotent: the same call again changes nothing.
                Effect::Repeatable,
            )
            .await?;
        let codes: Vec<i16> = row.get(0);
        let mut fates = codes.into_iter().map(settled);
        let reply = SettleReply {
            completions: fates.by_ref().take(request.completions.len()).collect::<Result<_>>()?,
            exceptions: fates.collect::<Result<_>>()?,
        };
        self.caches.holdings(request.worker, |held| held.settled(request, &reply));
        Ok(reply)
    }
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

impl From<&Completion> for Done {
    fn from(completion: &Completion) -> Self {
        let Completion { claim, jobs, count } = completion;
        let ranges = match jobs {
            JobSet::Rest => None,
            JobSet::Ranges(ranges) => Some(ranges.iter().flat_map(|(low, high)| [*low, *high]).collect()),
        };
        let Reference { lane, seq, token } = (*claim).into();
        Self { l: lane, s: seq, t: token, n: *count, r: ranges }
    }
}

impl From<&Exception> for Other {
    fn from(exception: &Exception) -> Self {
        let (disposition, delay, text, failed) = match &exception.disposition {
            Disposition::Retry { delay, error } => ("retry", *delay, Some(error), true),
            Disposition::Snooze { delay } => ("snooze", *delay, None, false),
            Disposition::Cancel { reason } => ("cancel", std::time::Duration::ZERO, Some(reason), false),
            Disposition::Discard { error, failed } => {
                ("discard", std::time::Duration::ZERO, Some(error), *failed)
            }
            Disposition::Complete { .. } => ("complete", std::time::Duration::ZERO, None, false),
            Disposition::NoHandler => ("no_handler", std::time::Duration::ZERO, None, false),
            // Unknown dispositions of a newer engine: hand the job back, so that nothing is lost.
            _ => ("return", std::time::Duration::ZERO, None, false),
        };
        let longest = Limits::MAX_DELAY_SECONDS * 1000;
        let Reference { lane, seq, token } = exception.claim.into();
        let result = match &exception.disposition {
            Disposition::Complete { result } => result.clone(),
            _ => None,
        };
        Self {
            l: lane,
            s: seq,
            t: token,
            j: exception.job.0,
            x: exception.position.to_string(),
            d: disposition,
            ms: u64::try_from(delay.as_millis()).unwrap_or(longest).min(longest),
            e: text.map(|text| Limits::storable_error(text)),
            f: failed,
            r: result,
        }
    }
}
