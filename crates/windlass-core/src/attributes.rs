use crate::{Args, Error, ErrorKind, Result, RetryPolicy, UniqueKey, millis};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, time::Duration};

/// What only some jobs have, beside their kind and args. A job without any of it pays nothing for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// Whom or what the job is about: a tenant, a customer, an account. 1 to 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A small JSON object for the handler and for people: a request id, a trace context. Windlass does not
    /// read it, but for the members `windlass.enc`, which binds [encrypted](crate::Envelope) args to the job, and `traceparent` and
    /// `tracestate`, its [trace](crate::TraceContext). At most [`Limits::MAX_META_BYTES`](crate::Limits::MAX_META_BYTES).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Args>,
    /// Whether the job is settled by itself, not as a part of its claim: what follows from its end then
    /// commits together with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tracked: bool,
    /// How long an attempt may take, instead of what its kind says. 1 ms to 100 years, in whole milliseconds.
    #[serde(
        default,
        rename = "timeout_ms",
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// When failed attempts are tried again, instead of what its kind says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// What the job can be [found](crate::JobFilter::tag) by. At most 20, each of 1 to 100 bytes without control characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A job that is not started by this time of the store's clock is not started at all: it is cancelled as `expired`.
    /// Holds for each attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The same, counted from when the store receives the job; it keeps [`Self::expires_at`] instead. The earlier of
    /// both counts. 1 ns to 100 years.
    #[serde(skip)]
    pub expires_after: Option<Duration>,
    /// What each of its attempts takes of its queue's [rate](crate::RateLimit); `None`: 1. 1 to
    /// [`Limits::MAX_COST`](crate::Limits::MAX_COST).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// The key of a [unique](crate::Unique) job, so that a retry takes it again. Set by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueMark>,
}

/// What a stored job says of its being unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueMark {
    /// Its key.
    pub key: UniqueKey,
    /// For how long it has the key: `started` or `finished`.
    pub until: Cow<'static, str>,
}

impl Attributes {
    /// The attributes of a job that the store received at this time of its clock: without anything relative.
    #[must_use]
    pub fn received(&self, at: Timestamp) -> Self {
        let after = self.expires_after.map(|after| {
            let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
            at.checked_add(after).unwrap_or(Timestamp::MAX)
        });
        let expires_at = [self.expires_at, after].into_iter().flatten().min();
        Self { expires_at, expires_after: None, ..self.clone() }
    }

    /// How long the job may still wait to be started, when it is `now` by the store's clock: nothing when it is expired,
    /// `None` when it does not expire.
    pub fn expires_in(&self, now: Timestamp) -> Option<Duration> {
        self.expires_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
    }

    /// The attributes as a store keeps them: one JSON object. They are those of a job that it
    /// [received](Self::received).
    ///
    /// ```
    /// use windlass_core::Attributes;
    /// let attributes = Attributes { key: Some("acme".into()), tracked: true, ..Attributes::default() };
    /// assert_eq!(attributes.to_json(), r#"{"key":"acme","tracked":true}"#);
    /// assert_eq!(Attributes::from_store(r#"{"key":"acme","newer":1}"#)?.unwrap().key.as_deref(), Some("acme"));
    /// assert!(Attributes::from_store("")?.is_none() && Attributes::from_store(" {}")?.is_none());
    /// # Ok::<(), windlass_core::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        // Neither a string nor checked JSON can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what a store kept; empty text and an empty object mean none. Fields of newer programs are passed over.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] when the store's text is damaged.
    pub fn from_store(text: &str) -> Result<Option<Box<Self>>> {
        if matches!(text, "" | " {}") {
            return Ok(None);
        }
        serde_json::from_str(text).map(Some).map_err(|cause| {
            Error::new(ErrorKind::Internal, format!("the attributes of a job are damaged: {cause}"))
                .with_source(cause)
        })
    }
}
