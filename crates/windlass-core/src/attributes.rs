use crate::{Args, Error, ErrorKind, Result, UniqueKey};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What only some jobs have, beside their kind and args. A job without any of it pays nothing for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// Whom or what the job is about: a tenant, a customer, an account. 1 to 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A small JSON object for the handler and for people: a request id, a trace context. Windlass does not
    /// read it. At most [`Limits::MAX_META_BYTES`](crate::Limits::MAX_META_BYTES).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Args>,
    /// Whether the job is settled by itself, not as a part of its claim: what follows from its end then
    /// commits together with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tracked: bool,
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
    /// The attributes as a store keeps them: one JSON object.
    ///
    /// ```
    /// use windlass_core::Attributes;
    /// let attributes = Attributes { key: Some("acme".into()), tracked: true, ..Attributes::default() };
    /// assert_eq!(attributes.to_json(), r#"{"key":"acme","tracked":true}"#);
    /// assert_eq!(Attributes::from_store(r#"{"key":"acme","newer":1}"#)?.unwrap().key.as_deref(), Some("acme"));
    /// assert!(Attributes::from_store("")?.is_none());
    /// # Ok::<(), windlass_core::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        // Neither a string nor checked JSON can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what a store kept; empty text means none. Fields of newer programs are passed over.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] when the store's text is damaged.
    pub fn from_store(text: &str) -> Result<Option<Box<Self>>> {
        if text.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(text).map(Some).map_err(|cause| {
            Error::new(ErrorKind::Internal, format!("the attributes of a job are damaged: {cause}"))
                .with_source(cause)
        })
    }
}
