use crate::{Error, ErrorKind, Result};

/// Which store a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKind {
    /// `postgres://` or `postgresql://`.
    Postgres,
    /// `sqlite:path`.
    Sqlite,
}

impl StoreKind {
    /// Reads the scheme of a store URL.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for any other scheme; the message never repeats a password.
    pub fn of(url: &str) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres);
        }
        if url.starts_with("sqlite:") {
            return Ok(Self::Sqlite);
        }
        Err(Error::new(
            ErrorKind::InvalidOption,
            format!(
                "unknown store URL {:?}; use sqlite:FILE or postgres://user@host/database",
                redact_url(url)
            ),
        ))
    }
}

/// The URL without its password, for logs and messages.
///
/// ```
/// use windlass_core::redact_url;
/// assert_eq!(redact_url("postgres://me:secret@db/app"), "postgres://me:***@db/app");
/// assert_eq!(redact_url("postgres://db/app?password=x&sslmode=require"), "postgres://db/app?password=***&sslmode=require");
/// ```
pub fn redact_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    // The last `@` before the query ends the user part, so a password with `@` or `/` stays hidden.
    let (before_query, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
    let before_query = match before_query.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{host}"),
            None => before_query.to_owned(),
        },
        None => before_query.to_owned(),
    };
    let query = query.map_or_else(String::new, |query| {
        let shown = query.split('&').map(|pair| match pair.split_once('=') {
            Some((key, _)) if key.eq_ignore_ascii_case("password") => format!("{key}=***"),
            _ => pair.to_owned(),
        });
        format!("?{}", shown.collect::<Vec<_>>().join("&"))
    });
    if scheme.is_empty() {
        format!("{before_query}{query}")
    } else {
        format!("{scheme}://{before_query}{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_show() {
        for url in ["postgres://u:p@w@h/d", "mysql://u:p@h", "u:p@h", "postgres://h/d?PASSWORD=p"] {
            assert!(!redact_url(url).contains("p@"), "{}", redact_url(url));
            assert!(!redact_url(url).contains("=p"), "{}", redact_url(url));
        }
        assert!(StoreKind::of("redis://x").unwrap_err().to_string().contains("sqlite:FILE"));
    }
}
