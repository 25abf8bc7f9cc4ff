use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_core::{Error, ErrorKind, Result};

/// A job's args as the store keeps them, for handlers that run programs or jobs of any kind.
/// The kind is in the [`Context`](crate::Context).
#[derive(Clone, Debug)]
pub struct RawJob {
    args: Bytes,
}

impl RawJob {
    pub(crate) fn new(args: Bytes) -> Self {
        Self { args }
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
            let wanted = std::any::type_name::<T>();
            Error::new(ErrorKind::InvalidArgs, format!("args do not fit {wanted}: {cause}"))
                .with_source(cause)
        })
    }
}
