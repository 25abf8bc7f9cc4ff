//! What workers say of the jobs that they have: progress, lines for their logs, checkpoints.

use super::{Member, member::Left};
use crate::{
    few::at_most,
    problem::{Problem, wrong_at},
};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass::{
    Args, Error, Limits, Progress,
    remote::{RemoteReport, Reported, Ticket},
};

/// The most reports of one call.
const MOST: usize = 1_000;

/// What is new of one job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    receipt: String,
    percent: Option<f64>,
    note: Option<String>,
    #[serde(default, deserialize_with = "lines")]
    log: Vec<String>,
    checkpoint: Option<Box<RawValue>>,
}

fn lines<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<String>, D::Error> {
    let most = Limits::MAX_LOG_LINES;
    at_most(list, most, format_args!("must be at most {most} lines, got more"))
}

/// The reports of one call.
pub(crate) fn reports<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Report>, D::Error> {
    at_most(list, MOST, format_args!("must be at most {MOST}, got more"))
}

/// A field, and what is wrong with it.
type Wrong = (&'static str, String);

impl Report {
    fn read(self, member: &Member) -> Result<RemoteReport, Wrong> {
        let Self { receipt, percent, note, log, checkpoint } = self;
        let progress = match (percent, note) {
            (None, None) => None,
            (None, Some(_)) => return Err(("percent", "is missing; a note needs it".to_owned())),
            (Some(percent), None) => Some(Progress::from(percent)),
            (Some(percent), Some(note)) => Some(Progress::from((percent, note))),
        };
        progress.as_ref().map_or(Ok(()), Progress::check).map_err(|error| ("percent", error.to_string()))?;
        let ticket = member.ticket(&receipt);
        let checkpoint =
            checkpoint.map(|checkpoint| read_checkpoint(member, ticket, &checkpoint)).transpose()?;
        Ok(RemoteReport { ticket, progress, log, checkpoint })
    }
}

fn read_checkpoint(member: &Member, ticket: Ticket, checkpoint: &RawValue) -> Result<Args, Wrong> {
    let wrong = |error: Error| ("checkpoint", error.to_string());
    let plain = Args::parse(checkpoint.get()).map_err(wrong)?;
    let checkpoint = member.seal(ticket, Left::Checkpoint, plain).map_err(wrong)?;
    Limits::check_checkpoint(&checkpoint).map_err(wrong)?;
    Ok(checkpoint)
}

/// All of them, or none where one is wrong.
pub(crate) fn read(reports: Vec<Report>, member: &Member) -> Result<Vec<RemoteReport>, Problem> {
    let read = |(at, report): (usize, Report)| {
        report.read(member).map_err(|(field, what)| wrong_at(&format!("/reports/{at}/{field}"), what))
    };
    reports.into_iter().enumerate().map(read).collect()
}

/// Has them stored; a word for each.
pub(crate) async fn store(
    member: &Arc<Member>,
    reports: Vec<RemoteReport>,
) -> Result<Vec<&'static str>, Problem> {
    let word = |reported: Reported| match reported {
        Reported::Accepted => "accepted",
        Reported::Refused => "refused",
    };
    Ok(member.remote.report(reports).await?.into_iter().map(word).collect())
}
