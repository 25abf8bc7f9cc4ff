//! What stores answer as the API says it: ids as text, secrets hidden, sizes bounded.

use crate::redact::{LONGEST_TEXT, Redaction, Secrets, Verbatim};
use serde_json::Value;
use windlass::{Args, Envelope, Error, ErrorKind, JobEvent, JobRecord, ListedSchedule};
use windlass_bridge::{event_json, schedule_json};

/// How much of args, meta, result and checkpoint is shown of a job in a list, and of one job. In bytes.
pub(crate) const IN_LISTS: usize = 2 << 10;
pub(crate) const OF_ONE: usize = LONGEST_TEXT;

/// Makes records into JSON.
struct Shower<'a> {
    redaction: &'a Redaction,
    most: usize,
    kind: String,
    secrets: Secrets,
    redacted: bool,
    cut: bool,
}

impl Shower<'_> {
    /// A value that users made.
    fn show(&mut self, args: &Args) -> Verbatim {
        let too_long = args.len() > self.most;
        self.cut |= too_long;
        // Sealed values are not readable anyway; the names of their fields say nothing.
        let sealed = Envelope::is_one(args.as_str().as_bytes());
        let Some(mut value) = Verbatim::read(args.as_str()) else {
            self.cut = true; // nested too deep to be read
            return not_shown(args);
        };
        self.redacted |= !sealed && self.redaction.hide(&self.kind, &mut value, &mut self.secrets);
        if too_long { not_shown(args) } else { value }
    }
}

fn not_shown(args: &Args) -> Verbatim {
    Verbatim::Text(format!("‹{} characters not shown›", args.as_str().chars().count()))
}

/// The values of a job that are hidden; those of its checkpoint only where its report is there.
pub(crate) fn secrets_of(job: &JobRecord, redaction: &Redaction) -> Secrets {
    let kind = job.kind.clone();
    let mut shower =
        Shower { redaction, most: OF_ONE, kind, secrets: Secrets::default(), redacted: false, cut: false };
    shower.show(&job.args);
    let checkpoint = job.report.as_ref().and_then(|report| report.checkpoint.as_ref());
    job.meta.iter().chain(&job.result).chain(checkpoint).for_each(|value| drop(shower.show(value)));
    shower.secrets
}

/// A job; of each value that users made at most so many bytes. `redacted` and `cut` say what is missing. `secrets`: what else is
/// hidden in its texts.
pub(crate) fn job_json(
    mut job: JobRecord,
    redaction: &Redaction,
    most: usize,
    secrets: Secrets,
) -> windlass::Result<Verbatim> {
    let kind = job.kind.clone();
    let mut shower = Shower { redaction, most, kind, secrets, redacted: false, cut: false };
    let args = shower.show(&std::mem::replace(&mut job.args, Args::parse("null")?));
    let meta = job.meta.take().map(|meta| shower.show(&meta));
    let result = job.result.take().map(|result| shower.show(&result));
    let checkpoint = job.report.as_mut().and_then(|report| report.checkpoint.take());
    let checkpoint = checkpoint.map(|checkpoint| shower.show(&checkpoint));
    let mut shown = Verbatim::of(&job).ok_or_else(unwritable)?;
    shown.set("id", Verbatim::Text(job.id.to_string()));
    for (name, value) in [("args", Some(args)), ("meta", meta), ("result", result)] {
        if let Some(value) = value {
            shown.set(name, value);
        }
    }
    if let (Some(report), Some(checkpoint)) = (shown.get_mut("report"), checkpoint) {
        report.set("checkpoint", checkpoint);
    }
    if let (IN_LISTS, Verbatim::Object(members)) = (most, &mut shown) {
        // A list reads none, and must not say that there were none.
        members.retain(|(name, _)| name != "errors");
    }
    for part in ["errors", "reason", "report", "result", "meta"] {
        if let Some(value) = shown.get_mut(part) {
            shower.secrets.scrub(value);
        }
    }
    for (name, is_so) in [("redacted", shower.redacted), ("cut", shower.cut)] {
        shown.set(name, Verbatim::of(&is_so).ok_or_else(unwritable)?);
    }
    Ok(shown)
}

/// A schedule with the args of its job as those of a job.
pub(crate) fn listed_json(listed: &ListedSchedule, redaction: &Redaction) -> windlass::Result<Verbatim> {
    let mut shown = Verbatim::of(&schedule_json(listed)).ok_or_else(unwritable)?;
    if let Some(id) = listed.record.last_job {
        shown.set("last_job", Verbatim::Text(id.to_string()));
    }
    let mut redacted = false;
    if let Some(definition) = shown.get_mut("definition") {
        let kind = match definition.get_mut("kind") {
            Some(Verbatim::Text(kind)) => kind.clone(),
            _ => String::new(),
        };
        let mut hide = |value: Option<&mut Verbatim>| {
            redacted |= value.is_some_and(|value| redaction.hide(&kind, value, &mut Secrets::default()));
        };
        hide(definition.get_mut("args"));
        hide(definition.get_mut("attributes").and_then(|attributes| attributes.get_mut("meta")));
    }
    shown.set("redacted", Verbatim::of(&redacted).ok_or_else(unwritable)?);
    Ok(shown)
}

/// An event; what is hidden in its job, where the reason has to be cleared of that.
pub(crate) fn event_shown(event: &JobEvent, secrets: Option<&Secrets>) -> Value {
    let mut shown = event_json(event);
    shown["id"] = event.job.to_string().into();
    if let Some(reason) = &event.reason {
        // Where nobody knows what is hidden, it may say anything.
        shown["reason"] = secrets.map(|secrets| secrets.scrubbed(reason)).into();
    }
    shown
}

pub(crate) fn unwritable() -> Error {
    Error::new(ErrorKind::Internal, "a record cannot be written as JSON; please report it")
}
