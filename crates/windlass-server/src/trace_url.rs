use std::str::FromStr;
use windlass::{Error, ErrorKind, Result};

/// The place of a trace's number in the address.
const TRACE_ID: &str = "{trace_id}";

/// Where a trace is shown: an address with `{trace_id}` in it.
///
/// ```
/// use windlass_server::TraceUrl;
/// assert!("https://jaeger.example.com/trace/{trace_id}".parse::<TraceUrl>().is_ok());
/// assert!("https://jaeger.example.com/".parse::<TraceUrl>().is_err());
/// assert!("javascript:alert('{trace_id}')".parse::<TraceUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceUrl(String);

impl TraceUrl {
    /// The address, with `{trace_id}` in it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TraceUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_web = text.starts_with("https://") || text.starts_with("http://");
        if is_web && text.contains(TRACE_ID) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        let message = format!(
            "the address of traces must be like https://jaeger.example.com/trace/{TRACE_ID}, got {text:?}"
        );
        Err(Error::new(ErrorKind::InvalidOption, message))
    }
}
