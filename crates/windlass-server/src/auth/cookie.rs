use super::sessions::LIFE;
use axum::http::{HeaderMap, header};

/// The cookie of a session. Its name ends in the port, where that is known: browsers tell the servers of one machine apart by their ports, but not
/// whose cookie is whose.
pub(crate) struct Cookie(String);

impl Cookie {
    pub(super) fn of_port(port: Option<u16>) -> Self {
        const NAME: &str = "windlass_session";
        Self(port.map_or_else(|| NAME.to_owned(), |port| format!("{NAME}_{port}")))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// What a request has of it.
    pub(super) fn find<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| (name == self.0).then_some(value))
    }

    /// It as a header; without a value it is taken away.
    pub(crate) fn set(&self, value: Option<&str>, path: &str, secure: bool) -> String {
        let (name, life) = (&self.0, value.map_or(0, |_| LIFE.as_secs()));
        let (value, secure) = (value.unwrap_or_default(), if secure { "; Secure" } else { "" });
        format!("{name}={value}; Path={path}; Max-Age={life}; HttpOnly; SameSite=Strict{secure}")
    }
}
