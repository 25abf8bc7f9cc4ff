//! Entries of the audit log: who changed what, how, and how many jobs that was.

use crate::{Args, Error, ErrorKind, JobEdit, JobId, Result, limits};
use serde::Serialize;
use serde_json::{Value, json};

/// What somebody did, to be written after it was done.
///
/// ```
/// use windlass_core::AuditEntry;
/// let entry = AuditEntry::new("anna", "queues.pause", "mail").with_reason("the provider is down");
/// assert_eq!((&*entry.via, &*entry.outcome), ("sdk", "done"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Who.
    pub actor: String,
    /// What they may do, where somebody told them apart by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// How: `sdk` for a program, `cli`, or by what the server knew them.
    pub via: String,
    /// What was done, such as `queues.pause`.
    pub action: String,
    /// To what: a queue, a schedule, a job, or the path of a call.
    pub target: String,
    /// Which jobs, where a filter selected them or several were named, and what an [edit](Self::with_edit) changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Args>,
    /// Why, in the words of who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many jobs were touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// `done`, or the code of the error or of the refusal.
    pub outcome: String,
    /// Which request it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl AuditEntry {
    /// The most entries that one call writes.
    pub const MAX_BATCH: usize = 1_000;
    /// The longest actor, role, way, action, outcome and request id, in bytes; what is longer is cut.
    pub const MAX_NAME_BYTES: usize = 200;
    /// The longest target, in bytes; what is longer is cut.
    pub const MAX_TARGET_BYTES: usize = 500;
    /// The longest reason, in bytes; what is longer is cut.
    pub const MAX_REASON_BYTES: usize = 1_000;
    /// The longest filter, in bytes; in the place of a longer one stands how long it was.
    pub const MAX_FILTER_BYTES: usize = 4_096;

    /// Something that a program did for somebody.
    pub fn new(actor: impl Into<String>, action: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            actor: actor.into(),
            role: None,
            via: "sdk".to_owned(),
            action: action.into(),
            target: target.into(),
            filter: None,
            reason: None,
            count: None,
            outcome: "done".to_owned(),
            request_id: None,
        }
    }

    /// The same to jobs that were named.
    pub fn of_jobs(actor: impl Into<String>, action: impl Into<String>, ids: &[JobId]) -> Self {
        if let [id] = ids {
            return Self::new(actor, action, format!("job {id}"));
        }
        let mut entry = Self::new(actor, action, format!("{} jobs", ids.len()));
        let named: Vec<_> = ids.iter().map(ToString::to_string).collect();
        entry.filter = Args::of(&json!({ "ids": named })).ok();
        entry
    }

    /// With another [`Self::via`].
    #[must_use]
    pub fn with_via(mut self, via: impl Into<String>) -> Self {
        self.via = via.into();
        self
    }

    /// With a [`Self::filter`].
    #[must_use]
    pub fn with_filter(mut self, filter: Args) -> Self {
        self.filter = Some(filter);
        self
    }

    /// With what an edit changed, as member `edit` of the [`Self::filter`]: of args only that they changed.
    #[must_use]
    pub fn with_edit(mut self, edit: &JobEdit) -> Self {
        let which = self.filter.as_ref().and_then(|filter| serde_json::from_str(filter.as_str()).ok());
        let mut noted: serde_json::Map<String, Value> = which.unwrap_or_default();
        noted.insert("edit".to_owned(), edit.noted());
        self.filter = Args::of(&noted).ok();
        self
    }

    /// With a [`Self::reason`].
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// With a [`Self::count`].
    #[must_use]
    pub fn with_count(mut self, jobs: u64) -> Self {
        self.count = Some(jobs);
        self
    }

    /// With another [`Self::outcome`].
    #[must_use]
    pub fn with_outcome(mut self, outcome: impl Into<String>) -> Self {
        self.outcome = outcome.into();
        self
    }

    /// As it ended. None where nothing is to be noted: what failed for certain, before any job was touched, changed nothing.
    #[must_use]
    pub fn ended<T>(self, done: &Result<T>) -> Option<Self> {
        match done {
            Ok(_) => Some(self),
            Err(error) if error.is_ambiguous() || self.count > Some(0) => {
                Some(self.with_outcome(error.code()))
            }
            Err(_) => None,
        }
    }

    /// For stores: these entries cut to what every store can keep.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for an entry without actor or action, and for too many at once.
    pub fn storable(entries: &[Self]) -> Result<Vec<Self>> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if entries.len() > Self::MAX_BATCH {
            return refuse(format!(
                "one call writes at most {} audit entries, got {}; write them in several",
                Self::MAX_BATCH,
                entries.len()
            ));
        }
        if let Some(n) = entries.iter().position(|entry| entry.actor.is_empty() || entry.action.is_empty()) {
            return refuse(format!(
                "audit entry {n} of {} has no actor or no action; name both",
                entries.len()
            ));
        }
        Ok(entries.iter().map(Self::cut).collect())
    }

    fn cut(&self) -> Self {
        let name = |text: &String| limits::storable(text, Self::MAX_NAME_BYTES);
        // Text by which some stores cannot keep JSON is left out with what is too long.
        let too_much =
            |filter: &Args| filter.len() > Self::MAX_FILTER_BYTES || filter.as_str().contains("\\u0000");
        let filter = match &self.filter {
            Some(filter) if too_much(filter) => left_out(filter),
            filter => filter.clone(),
        };
        Self {
            actor: name(&self.actor),
            role: self.role.as_ref().map(name),
            via: name(&self.via),
            action: name(&self.action),
            target: limits::storable(&self.target, Self::MAX_TARGET_BYTES),
            filter,
            reason: self.reason.as_ref().map(|reason| limits::storable(reason, Self::MAX_REASON_BYTES)),
            count: self.count.map(|count| count.min(i64::MAX.unsigned_abs())),
            outcome: name(&self.outcome),
            request_id: self.request_id.as_ref().map(name),
        }
    }
}

/// In the place of a filter: how long it was, and what an edit changed.
fn left_out(filter: &Args) -> Option<Args> {
    let text = format!("left out: {} bytes", filter.len());
    let edit = serde_json::from_str::<Value>(filter.as_str())
        .ok()
        .and_then(|mut all| Some(all.get_mut("edit")?.take()));
    match edit.filter(|edit| edit.to_string().len() < AuditEntry::MAX_FILTER_BYTES / 2) {
        Some(edit) => Args::of(&json!({ "ids": text, "edit": edit })).ok(),
        None => Args::of(&text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_noted_without_its_args() {
        let edit = JobEdit::new()
            .with_no_delay()
            .with_queue("q")
            .with_priority(-5)
            .with_max_attempts(3)
            .with_args(Args::parse(r#"{"secret":1}"#).unwrap());
        let noted = r#""edit":{"args":"changed","max_attempts":3,"now":true,"priority":-5,"queue":"q"}"#;
        let entry = AuditEntry::of_jobs("anna", "jobs.edit", &[JobId(7)]).with_edit(&edit);
        assert_eq!(entry.filter.unwrap().as_str(), format!("{{{noted}}}"));
        let ids: Vec<_> = (0..2_000).map(JobId).collect();
        let entry = AuditEntry::of_jobs("anna", "jobs.edit", &ids).with_edit(&edit);
        let kept = AuditEntry::storable(&[entry]).unwrap().remove(0).filter.unwrap();
        assert!(kept.as_str().contains(noted) && kept.as_str().contains("left out: "), "{}", kept.as_str());
    }

    #[test]
    fn what_is_too_long_is_cut_and_what_says_nothing_refused() {
        let long = "x".repeat(10_000);
        let mut entry = AuditEntry::new(&*long, "a\0b", &*long).with_reason(&*long).with_count(u64::MAX);
        entry.filter = Args::of(&long).ok();
        let kept = AuditEntry::storable(&[entry]).unwrap().remove(0);
        let sizes = (kept.actor.len(), kept.target.len(), kept.reason.unwrap().len());
        assert_eq!(sizes, (200, 500, 1_000));
        assert_eq!((&*kept.action, kept.count), ("a\u{fffd}b", Some(i64::MAX.unsigned_abs())));
        assert_eq!(kept.filter.unwrap().as_str(), "\"left out: 10002 bytes\"");
        for entry in [AuditEntry::new("", "a", "t"), AuditEntry::new("a", "", "t")] {
            let error = AuditEntry::storable(&[entry]).unwrap_err();
            assert!(error.to_string().contains("entry 0 of 1"), "{error}");
        }
        let many = vec![AuditEntry::new("a", "b", "c"); AuditEntry::MAX_BATCH + 1];
        assert!(AuditEntry::storable(&many).unwrap_err().to_string().contains("got 1001"));
    }
}
