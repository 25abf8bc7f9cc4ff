use crate::{Args, ArgsPattern, Error, ErrorKind, JobState, Limits, PageToken, Result};
use serde_json::json;
use std::collections::BTreeMap;

/// Which jobs to list.
///
/// They come state by state: running, available, retryable, scheduled, discarded, cancelled, completed. Each state
/// comes queue by queue and priority by priority, in the order in which these were first used, and within that in
/// the order of the place where its jobs live, so that a page costs its own size:
///
/// | state | order |
/// |---|---|
/// | running | longest held first |
/// | available | newest first; then those that wait for a worker that knows their kind, the longest first |
/// | retryable, scheduled | next due first |
/// | discarded, cancelled | last finished first |
/// | completed | last claimed first |
///
/// Jobs that were claimed together come as they were handed out.
#[derive(Clone, Debug)]
pub struct JobFilter {
    /// Only jobs in this state; all when `None`.
    pub state: Option<JobState>,
    /// Only jobs of this queue.
    pub queue: Option<String>,
    /// Only jobs of this kind.
    pub kind: Option<String>,
    /// Only jobs with this tag. Looks at each job that the rest of the filter lets through: pages may be short.
    pub tag: Option<String>,
    /// Only jobs whose last error contains this text; the case of the letters A to Z does not matter. It is what made a discarded job
    /// fail, and of others the error of the last attempt that failed. Looks at jobs as [`Self::tag`] does.
    pub error: Option<String>,
    /// Only jobs whose args contain this object: see [`ArgsPattern`]. Encrypted args contain nothing. Looks at jobs as [`Self::tag`] does.
    pub args: Option<Args>,
    /// Goes on where the page before ended: its [`JobPage::next`](crate::JobPage::next).
    pub after: Option<PageToken>,
    /// The most jobs to list, 1 to [`Self::MAX_LIMIT`].
    pub limit: u32,
}

impl JobFilter {
    /// The largest page.
    pub const MAX_LIMIT: u32 = 10_000;

    /// The longest [text](Self::error) to look for, in bytes.
    pub const MAX_ERROR_BYTES: usize = 1_000;

    /// Whether it selects every job.
    pub fn is_everything(&self) -> bool {
        let Self { state, queue, kind, tag, error, args, after: _, limit: _ } = self;
        let named = [queue, kind, tag, error].into_iter().any(Option::is_some);
        state.is_none() && !named && args.is_none()
    }

    /// What it selects by, as the audit log has it.
    pub fn noted(&self) -> Option<Args> {
        let Self { state, queue, kind, tag, error, args, after: _, limit: _ } = self;
        let text = |value: &Option<String>| value.as_ref().map(|value| json!(value));
        let parts = [
            ("state", state.map(|state| json!(state))),
            ("queue", text(queue)),
            ("kind", text(kind)),
            ("tag", text(tag)),
            ("error", text(error)),
            ("args", args.as_ref().map(|args| json!(args))),
        ];
        let said: BTreeMap<_, _> =
            parts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Args::of(&said).ok()
    }

    /// Checks it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] for a queue or a kind that no job can have; [`ErrorKind::InvalidOption`] for such a tag, when the limit is 0 or above
    /// [`Self::MAX_LIMIT`], and for a text or args that nothing can be looked for by.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        // What no job can have finds none, however it was mistyped.
        self.queue.as_deref().map_or(Ok(()), Limits::check_queue_name)?;
        self.kind.as_deref().map_or(Ok(()), Limits::check_kind_name)?;
        self.tag.as_deref().map_or(Ok(()), Limits::check_tag)?;
        if !(1..=Self::MAX_LIMIT).contains(&self.limit) {
            return refuse(format!("limit must be 1 to {}, got {}", Self::MAX_LIMIT, self.limit));
        }
        if let Some(error) = &self.error
            && (!(1..=Self::MAX_ERROR_BYTES).contains(&error.len()) || error.contains('\0'))
        {
            return refuse(format!(
                "the text to look for in errors must be 1 to {} bytes without NUL, got {}",
                Self::MAX_ERROR_BYTES,
                error.len()
            ));
        }
        self.wanted().map(|_| ())
    }

    /// For stores: what to look for in a job.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn wanted(&self) -> Result<Wanted> {
        let args = self.args.as_ref().map(ArgsPattern::of).transpose()?;
        Ok(Wanted { error: self.error.as_ref().map(|error| error.to_ascii_lowercase()), args })
    }
}

/// What a filter looks for in jobs: see [`JobFilter::wanted`].
#[derive(Clone, Debug)]
pub struct Wanted {
    /// In small letters.
    error: Option<String>,
    args: Option<ArgsPattern>,
}

impl Wanted {
    /// Whether the last error of a job matters.
    pub fn looks_at_errors(&self) -> bool {
        self.error.is_some()
    }

    /// Whether it is a job with this last error.
    pub fn has_error(&self, error: Option<&str>) -> bool {
        let Some(wanted) = &self.error else { return true };
        error.is_some_and(|error| error.to_ascii_lowercase().contains(wanted))
    }

    /// Whether it is a job with these args.
    pub fn has_args(&self, args: &str) -> bool {
        self.args.as_ref().is_none_or(|pattern| pattern.is_in(args))
    }
}

impl Default for JobFilter {
    fn default() -> Self {
        Self {
            state: None,
            queue: None,
            kind: None,
            tag: None,
            error: None,
            args: None,
            after: None,
            limit: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_nothing_is_refused() {
        let all = JobFilter::default;
        let args = |json: &str| Some(Args::parse(json).unwrap());
        for (filter, says) in [
            (JobFilter { limit: 0, ..all() }, "got 0"),
            (JobFilter { error: Some(String::new()), ..all() }, "got 0"),
            (JobFilter { error: Some("x".repeat(1_001)), ..all() }, "got 1001"),
            (JobFilter { error: Some("a\0b".into()), ..all() }, "NUL"),
            (JobFilter { tag: Some(String::new()), ..all() }, "a tag must be"),
            (JobFilter { args: args("[1]"), ..all() }, "JSON object"),
            (JobFilter { args: args("{}"), ..all() }, "no member"),
        ] {
            let error = filter.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(says), "{error}");
        }
        for (filter, says) in [
            (JobFilter { queue: Some(String::new()), ..all() }, "invalid queue name \"\""),
            (JobFilter { queue: Some("a b".into()), ..all() }, "invalid queue name \"a b\""),
            (JobFilter { queue: Some("a\0b".into()), ..all() }, "invalid queue name"),
            (JobFilter { kind: Some("a b".into()), ..all() }, "invalid kind \"a b\""),
        ] {
            let error = filter.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            assert!(error.to_string().contains(says), "{error}");
        }
        let good = JobFilter { error: Some("HTTP 503".into()), args: args("{\"a\":1}"), ..all() };
        good.check().unwrap();
        assert!(all().is_everything() && !good.is_everything());
    }

    #[test]
    fn errors_are_found_in_any_case() {
        let wanted = JobFilter { error: Some("Timed OUT".into()), ..JobFilter::default() }.wanted().unwrap();
        assert!(wanted.has_error(Some("the call timed out after 3 s")));
        assert!(!wanted.has_error(Some("time")) && !wanted.has_error(None));
        assert!(JobFilter::default().wanted().unwrap().has_error(None));
    }
}
