//! A build without the feature `otel`: nothing is traced, nothing is paid.

use crate::Client;
use windlass_core::{NewJob, Result};

#[derive(Clone)]
pub(crate) enum Traces {}

pub(crate) struct Sending;

impl Client {
    #[expect(clippy::unused_self, reason = "as with traces")]
    pub(crate) fn sending(&self, _: &mut [NewJob]) -> Sending {
        Sending
    }
}

impl Sending {
    #[expect(clippy::unused_self, reason = "as with traces")]
    pub(crate) fn end<T>(self, result: Result<T>) -> Result<T> {
        result
    }
}
