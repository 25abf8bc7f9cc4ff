use std::str::FromStr;
use windlass::{Error, ErrorKind};

/// The path under which a server is; at the root by default.
///
/// ```
/// use windlass_server::BasePath;
/// assert_eq!("/jobs/".parse::<BasePath>()?.as_str(), "/jobs");
/// assert!("jobs".parse::<BasePath>().is_err() && "/{jobs}".parse::<BasePath>().is_err());
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath(String);

impl BasePath {
    /// Without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BasePath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let path = text.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        if path.is_empty() || (path.starts_with('/') && !path.contains("//") && path.bytes().all(is_plain)) {
            return Ok(Self(path.to_owned()));
        }
        let message =
            format!("base path {text:?} must be like /jobs: a slash, then letters, digits, - . _ ~");
        Err(Error::new(ErrorKind::InvalidOption, message))
    }
}
