use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;

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
        let use_instead = match driver(url) {
            Some(name) => format!("leave out +{name}: Windlass brings its own driver"),
            None => "use sqlite:FILE or postgres://user@host/database".to_owned(),
        };
        let message = format!("unknown store URL {:?}; {use_instead}", redact_url(url));
        Err(Error::new(ErrorKind::InvalidOption, message))
    }
}

/// The file that a `sqlite:` URL names: `sqlite:b.db` and `sqlite://b.db` one in the folder that the program runs in, `sqlite:/a/b.db` and
/// `sqlite:///a/b.db` one by its whole path.
///
/// ```
/// use windlass_core::sqlite_file;
/// assert_eq!(sqlite_file("sqlite:b.db?synchronous=normal"), Some("b.db"));
/// assert_eq!(sqlite_file("sqlite:///a/b.db"), Some("/a/b.db"));
/// assert_eq!(sqlite_file("postgres://db/app"), None);
/// ```
pub fn sqlite_file(url: &str) -> Option<&str> {
    let name = url.strip_prefix("sqlite:")?;
    let name = name.split_once('?').map_or(name, |(name, _)| name);
    Some(name.strip_prefix("//").unwrap_or(name))
}

/// That of SQLAlchemy's URLs, as in `postgresql+asyncpg://`.
fn driver(url: &str) -> Option<&str> {
    let (database, name) = url.split_once("://")?.0.split_once('+')?;
    matches!(database, "postgres" | "postgresql").then_some(name)
}

/// The URL without its password, for logs and messages.
///
/// ```
/// use windlass_core::redact_url;
/// assert_eq!(redact_url("postgres://me:secret@db/app"), "postgres://me:***@db/app");
/// assert_eq!(redact_url("postgres://db/app?password=x&sslmode=require"), "postgres://db/app?password=***&sslmode=require");
/// ```
pub fn redact_url(url: &str) -> String {
    let is_scheme = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => format!("{scheme}://{}", redact_rest(&hide_port(rest))),
        // No URL, perhaps libpq's `host=db password=secret`: nothing behind such a word is shown.
        _ => {
            let shown = redact_rest(url);
            match password_word(&shown) {
                Some(at) => format!("{}***", &shown[..at]),
                None => shown,
            }
        }
    }
}

/// What follows the scheme. When it is not clear where a password ends, more than it is hidden.
fn redact_rest(rest: &str) -> String {
    let query = rest.find('?').unwrap_or(rest.len());
    match (rest.find(':'), rest.rfind('@')) {
        // A plain `?` in the password, or an `@` in a parameter: who can tell?
        (Some(colon), Some(at)) if colon < query && query < at => format!("{}:***", &rest[..colon]),
        (Some(colon), Some(at)) if colon < at && at < query => {
            format!("{}:***@{}", &rest[..colon], redact_place(&rest[at + 1..]))
        }
        _ => redact_place(rest),
    }
}

/// Without an `@`, a port that is no number is a password whose `@` was forgotten: it is hidden with all that
/// follows it.
fn hide_port(rest: &str) -> Cow<'_, str> {
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    if rest.contains('@') && !hosts.contains('@') && hosts.len() < rest.len() {
        return Cow::Borrowed(rest); // the password holds a / or ?, see `redact_rest`
    }
    let mut start = hosts.rfind('@').map_or(0, |at| at + 1);
    for host in hosts[start..].split(',') {
        let name = host.rfind(']').map_or(0, |end| end + 1);
        if let Some(colon) = host[name..].find(':').map(|colon| name + colon)
            && !host[colon + 1..].bytes().all(|b| b.is_ascii_digit())
        {
            return Cow::Owned(format!("{}:***", &rest[..start + colon]));
        }
        start += host.len() + 1;
    }
    Cow::Borrowed(rest)
}

/// Host, port, database and parameters.
fn redact_place(place: &str) -> String {
    let (before_query, query) = place.split_once('?').map_or((place, None), |(a, b)| (a, Some(b)));
    let Some(query) = query else { return before_query.to_owned() };
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        // A name with an escape may say "password" as well.
        Some((key, _)) if key.contains('%') || password_word(pair).is_some() => format!("{key}=***"),
        Some(_) => pair.to_owned(),
        None if pair.is_empty() => String::new(),
        None => "***".to_owned(),
    });
    format!("{before_query}?{}", shown.collect::<Vec<_>>().join("&"))
}

/// Where a word such as password, passwd or sslpassword begins.
fn password_word(text: &str) -> Option<usize> {
    text.as_bytes().windows(4).position(|word| word.eq_ignore_ascii_case(b"pass"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_show() {
        for (url, shown) in [
            ("postgres://u:p?w@h/d", "postgres://u:***"),
            ("postgres://u:p@w?x=y@h/d", "postgres://u:***"),
            ("u:p://w@h/d", "u:***@h/d"),
            ("host=h password=p user=u", "host=h ***"),
            ("postgres://h/d?sslpassword=p", "postgres://h/d?sslpassword=***"),
            ("postgres://h/d?pass%77ord=p&a=b", "postgres://h/d?pass%77ord=***&a=b"),
            ("postgres://u:phost/d", "postgres://u:***"),
            ("postgres://u@[::1]:5432,h:1/d?a=b", "postgres://u@[::1]:5432,h:1/d?a=b"),
            ("postgres://h:1,u:phost/d", "postgres://h:1,u:***"),
            ("postgres://u:p@h:port/d", "postgres://u:***@h:***"),
            ("sqlite:b.db", "sqlite:b.db"),
            ("sqlite:///a/b.db", "sqlite:///a/b.db"),
            ("sqlite:/a/b.db?synchronous=normal", "sqlite:/a/b.db?synchronous=normal"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
        for url in ["postgres://u:p@w@h/d", "mysql://u:p@h", "u:p@h", "postgres://h/d?PASSWORD=p"] {
            assert!(!redact_url(url).contains("p@"), "{}", redact_url(url));
            assert!(!redact_url(url).contains("=p"), "{}", redact_url(url));
        }
        assert!(StoreKind::of("redis://x").unwrap_err().to_string().contains("sqlite:FILE"));
        let sqlalchemy = StoreKind::of("postgresql+asyncpg://u:p@h/d").unwrap_err().to_string();
        assert!(sqlalchemy.contains("u:***@h/d\"; leave out +asyncpg"), "{sqlalchemy}");
    }
}
