use crate::encryption::without_content;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::{any::type_name, fmt};
use windlass_core::{Error, ErrorKind, Result};

/// A job's args as they were enqueued, for handlers that run programs or jobs of any kind.
/// The kind is in the [`Context`](crate::Context).
#[derive(Clone)]
pub struct RawJob {
    args: Bytes,
    encrypted: bool,
}

impl RawJob {
    pub(crate) fn new(args: Bytes) -> Self {
        Self { args, encrypted: false }
    }

    /// Args that were opened, or should have been encrypted: not to be shown.
    pub(crate) fn new_encrypted(args: Bytes) -> Self {
        Self { args, encrypted: true }
    }

    /// Whether the args are encrypted in the store: they should not be logged or stored elsewhere.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The args as JSON text.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] when the store handed out something that is not UTF-8.
    pub fn json(&self) -> Result<&str> {
        std::str::from_utf8(&self.args).map_err(|cause| {
            Error::new(ErrorKind::Internal, format!("args are not UTF-8: {cause}")).with_source(cause)
        })
    }

    /// The args as the bytes of their JSON text; no copy.
    pub fn bytes(&self) -> &Bytes {
        &self.args
    }

    /// Reads the args.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when they do not fit `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.args).map_err(|cause| {
            let told = self.tell(&cause);
            let error =
                Error::new(ErrorKind::InvalidArgs, format!("args do not fit {}: {told}", type_name::<T>()));
            if self.encrypted { error } else { error.with_source(cause) }
        })
    }

    /// The words of an error, which show nothing of encrypted args.
    pub(crate) fn tell(&self, cause: &serde_json::Error) -> String {
        if self.encrypted { without_content(cause) } else { cause.to_string() }
    }
}

/// Without encrypted args.
impl fmt::Debug for RawJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: &dyn fmt::Debug = if self.encrypted { &"[encrypted]" } else { &self.args };
        f.debug_struct("RawJob").field("args", args).finish()
    }
}
