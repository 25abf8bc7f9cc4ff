//! Store URLs: a password never shows, whatever is wrong with the URL around it.

use super::queue::Choices;
use windlass_core::{ErrorKind, StoreKind, redact_url};
use windlass_postgres::PostgresOptions;
use windlass_sqlite::SqliteOptions;

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "postgres://",
    "postgresql://",
    "sqlite:",
    "mysql://",
    "sqlite:///",
    "u",
    ":",
    "@",
    "/",
    "?",
    "&",
    "=",
    "#",
    "%",
    "%40",
    "%00",
    ",",
    "[",
    "]",
    "::1",
    "localhost",
    "5432",
    "99999",
    "schema=",
    "pooler=",
    "transaction",
    "sslmode=",
    "require",
    "verify-full",
    "sslrootcert=",
    "system",
    "connect_timeout=",
    "options=",
    "target_session_attrs=",
    "synchronous=normal",
    ":memory:",
    "\0",
    " ",
    "ä",
    "host=",
    "'",
];

/// What no text may show.
const CANARY: &str = "q7canary7q";

/// Reads the bytes as a URL, and then hides a password in the places that the bytes say.
pub fn body(data: &[u8]) {
    if let Ok(url) = std::str::from_utf8(data) {
        show(url);
    }
    let url = with_password(&mut Choices::new(data));
    for text in show(&url) {
        assert!(!text.contains(CANARY), "{url:?} shows its password: {text}");
    }
}

/// Everything that is told of a URL.
fn show(url: &str) -> Vec<String> {
    let mut texts = vec![redact_url(url)];
    texts.extend(StoreKind::of(url).err().map(|error| error.to_string()));
    match PostgresOptions::default().place_of(url) {
        Ok(place) => texts.push(place),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::InvalidOption | ErrorKind::InvalidName), "{error}");
            texts.push(format!("{error} {error:?}"));
        }
    }
    if let Err(error) = SqliteOptions::default().place_of(url) {
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        texts.push(format!("{error} {error:?}"));
    }
    texts
}

/// A URL with the canary as a password: at its proper place, as a parameter, in libpq's other notation, and
/// with what people leave unescaped around it.
fn with_password(choices: &mut Choices<'_>) -> String {
    const AROUND: [&str; 16] =
        ["", "", "", "@", "?", "/", ":", "#", "%", "%zz", "&", "a=b", "://", " ", "?schema=", "?pooler="];
    const HOSTS: [&str; 10] =
        ["h", "h:5432", "[::1]:5432", "h1,h2:6", "", "h:port", ":", "%2Frun", "h h", "h:5:6"];
    const ENDS: [&str; 8] =
        ["/d", "", "/d?sslmode=no", "/d?x", "/d?schema=A", "?connect_timeout=x", "/d?a=b@c", "/%zz"];
    const KEYS: [&str; 8] = [
        "password=",
        "PASSWORD=",
        "pass%77ord=",
        "sslpassword=",
        "%2Fpassword=",
        "user=u password=",
        "passwd=",
        "password",
    ];
    const SCHEMES: [&str; 9] = [
        "postgres://",
        "postgresql://",
        "mysql://",
        "postgres:/",
        "postgres:",
        "",
        "sqlite:",
        "POSTGRES://",
        "postgres//",
    ];
    let mut one = |all: &[&'static str]| choices.pick(all).unwrap_or_default();
    let (scheme, host, end) = (one(&SCHEMES), one(&HOSTS), one(&ENDS));
    let (before, after, key) = (one(&AROUND), one(&AROUND), one(&KEYS));
    match choices.below(5) {
        0 | 1 => format!("{scheme}u:{before}{CANARY}{after}@{host}{end}"),
        2 => format!("{scheme}u@{host}/d?sslmode=disable&{key}{CANARY}&connect_timeout=no"),
        3 => format!("{scheme}u:{CANARY}@{host}/d?{key}{CANARY}"),
        // This notation knows no %.
        _ => format!("host=h user=u {} '{CANARY}' dbname=d", key.replace('%', "")),
    }
}
