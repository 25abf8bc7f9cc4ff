use crate::access::Access;
use tokio_postgres::error::{Severity, SqlState};
use windlass_core::{Error, ErrorKind, Result};

/// Whether repeating a statement whose connection broke could do something twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It only reads, or repeating it changes nothing.
    Repeatable,
    /// It writes: when the connection breaks, nobody knows whether it did.
    Write,
}

/// Turns a driver error into ours.
pub(crate) fn store_error(cause: tokio_postgres::Error, effect: Effect) -> Error {
    let lost = if effect == Effect::Write { ErrorKind::Ambiguous } else { ErrorKind::Unavailable };
    let Some(db) = cause.as_db_error() else {
        let kind = if is_value_error(&cause) { ErrorKind::Internal } else { lost };
        return Error::new(kind, format!("connection to PostgreSQL lost: {}", chain(&cause)))
            .with_source(cause);
    };
    let (kind, text) = describe(db.code().code(), db.message(), lost);
    let kind = if is_of_the_session(db.parsed_severity(), kind) { lost } else { kind };
    Error::new(kind, text).with_source(cause)
}

/// Whether the server ended the session for a reason of its own, which says nothing of what was sent.
fn is_of_the_session(severity: Option<Severity>, kind: ErrorKind) -> bool {
    matches!(severity, Some(Severity::Fatal | Severity::Panic)) && kind == ErrorKind::Internal
}

/// The error of Windlass for one of PostgreSQL's, by its SQLSTATE: for drivers other than our own.
///
/// ```
/// let error = windlass_postgres::sqlstate_error("WL001", "job 7 is settled already");
/// assert!(error.is_lease_lost());
/// ```
pub fn sqlstate_error(sqlstate: &str, message: &str) -> Error {
    let (kind, text) = describe(sqlstate, message, ErrorKind::Unavailable);
    Error::new(kind, text)
}

/// `lost`: what it means that the server goes down, or that the connection to it is lost.
fn describe(sqlstate: &str, message: &str, lost: ErrorKind) -> (ErrorKind, String) {
    match sqlstate {
        "WL001" => (ErrorKind::LeaseLost, message.to_owned()),
        "WL002" => (ErrorKind::InvalidName, message.to_owned()),
        "WL003" => (ErrorKind::InvalidOption, message.to_owned()),
        "WL004" => (ErrorKind::InvalidArgs, message.to_owned()),
        "WL008" => (ErrorKind::EventsExpired, message.to_owned()),
        "WL007" => (ErrorKind::UniqueConflict, message.to_owned()),
        "WL006" => (ErrorKind::InvalidOption, message.to_owned()),
        "42501" => (ErrorKind::PermissionDenied, format!("{message}; {}", remedy(message))),
        "28P01" | "28000" => {
            (ErrorKind::PermissionDenied, format!("PostgreSQL refused the login: {message}"))
        }
        "3D000" => (ErrorKind::InvalidOption, format!("{message}; create it or correct the store URL")),
        "3F000" | "42P01" | "42883" => (
            ErrorKind::SchemaMissing,
            format!(
                "Windlass is not installed there ({message}); run `windlass migrate`, or check ?schema= in the store URL"
            ),
        ),
        "53100" => (ErrorKind::StorageFull, format!("PostgreSQL's disk is full: {message}")),
        // Of names and filters: what is stored was looked at before.
        "22021" | "22P05" => (
            ErrorKind::InvalidArgs,
            format!("a text contains NUL, which PostgreSQL cannot read; remove it ({message})"),
        ),
        "22P02" | "22032" | "54001" => (ErrorKind::InvalidArgs, message.to_owned()),
        "57P01" | "57P02" | "57P03" => (lost, format!("PostgreSQL is going down or starting: {message}")),
        "25006" => (
            ErrorKind::Unavailable,
            format!(
                "{message}: connected to a read-only server (a standby?), or default_transaction_read_only is on for this role or database"
            ),
        ),
        // Of a pooler that lost its server: what was sent may have arrived.
        code if code.starts_with("08") => (lost, format!("connection to PostgreSQL lost: {message}")),
        code if code.starts_with("53") || is_transient(code) => {
            (ErrorKind::Unavailable, format!("PostgreSQL cannot do it now: {message}"))
        }
        code => (ErrorKind::Internal, format!("PostgreSQL: {message} (SQLSTATE {code})")),
    }
}

/// What gives the right that PostgreSQL says is missing, the least first.
fn remedy(message: &str) -> String {
    let least = Access::for_refusal(message);
    if least.is_empty() {
        return "use the owner of the schema, or grant the privilege (`windlass grant` gives what Windlass takes)".into();
    }
    let named = |accesses: &[Access]| {
        let grants: Vec<_> =
            accesses.iter().map(|access| format!("`windlass grant {access} ROLE`")).collect();
        grants.join(" or ")
    };
    let beyond: Vec<_> = Access::beyond(&least, message).iter().map(|access| format!("`{access}`")).collect();
    let also = match beyond.is_empty() {
        true => String::new(),
        false => format!("; so does {}, which may more", beyond.join(" or ")),
    };
    let (all, some): (Vec<_>, Vec<_>) = least.into_iter().partition(|access| access.reads_all_of(message));
    // Who has some columns of a table may have been refused the others.
    if !all.is_empty() && !some.is_empty() {
        return format!(
            "{}, run as the owner of the schema, gives a role all of it to read, {} only what that access takes of it",
            named(&all),
            named(&some)
        );
    }
    format!(
        "{}, run as the owner of the schema, gives a role what it takes{also}",
        named(&[all, some].concat())
    )
}

fn is_transient(code: &str) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::QUERY_CANCELED,
        SqlState::LOCK_NOT_AVAILABLE,
    ]
    .iter()
    .any(|state| state.code() == code)
}

/// What the driver said, where an error is of the server or of the way to it.
pub(crate) fn of_driver(error: &Error) -> Option<&tokio_postgres::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Whether the statement was refused because of somebody else's lock. The connection is well.
pub(crate) fn is_lock_failure(error: &Error) -> bool {
    let code = of_driver(error).and_then(tokio_postgres::Error::code);
    code == Some(&SqlState::LOCK_NOT_AVAILABLE) || code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// How often a migration or grant is tried that others are in the way of, before the last time.
const TRIES_BESIDE_OTHERS: u32 = 5;

/// Runs a migration or grant, from its beginning again where others were in its way.
pub(crate) async fn beside_others<T, F: Future<Output = Result<T>>>(
    schema: &str,
    run: impl Fn() -> F,
) -> Result<T> {
    for _ in 0..TRIES_BESIDE_OTHERS {
        match run().await {
            Err(error) if is_in_the_way(schema, &error) => {}
            done => return done,
        }
    }
    run().await
}

/// Whether a migration or grant is to be tried again. A step on tables may meet a transaction that has one and comes to another, and a grant one that
/// grants on the same function: PostgreSQL may end ours rather than that.
fn is_in_the_way(schema: &str, error: &Error) -> bool {
    // Of the second who changes a definition, or rights to it: "tuple concurrently updated", in the server's language.
    let is_second = of_driver(error)
        .and_then(tokio_postgres::Error::as_db_error)
        .is_some_and(|db| db.routine() == Some("simple_heap_update"));
    let it_is = is_second || is_lock_failure(error);
    if it_is {
        tracing::info!(schema, %error, "another transaction was in the way: begins again");
    }
    it_is
}

/// The driver could not convert a value: a defect of ours, not a lost connection.
fn is_value_error(cause: &tokio_postgres::Error) -> bool {
    let text = cause.to_string();
    text.contains("serializ") || text.contains("column") || text.contains("parameter")
}

/// Turns a failure to get a connection into ours: nothing was sent, so nothing is ambiguous.
pub(crate) fn pool_error(cause: deadpool::managed::PoolError<tokio_postgres::Error>, server: &str) -> Error {
    match cause {
        cause @ deadpool::managed::PoolError::Closed => Error::new(
            ErrorKind::Unavailable,
            format!("the client of PostgreSQL at {server} was closed before this call had a connection: nothing was done"),
        )
        .with_source(cause),
        other => Error::new(ErrorKind::Unavailable, format!("no connection to {server}: {other}"))
            .with_source(other),
    }
}

/// Turns a failed connection attempt into ours. `connected`: whether one was made before.
pub(crate) fn connect_error(cause: tokio_postgres::Error, server: &str, connected: bool) -> Error {
    if let Some(db) = cause.as_db_error() {
        let (kind, text) = refusal(db.code().code(), db.message(), connected);
        return Error::new(kind, text).with_source(cause);
    }
    let why = chain(&cause);
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "cannot reach PostgreSQL at {server}: {why}; check that it runs and that the store URL is right"
        ),
    )
    .with_source(cause)
}

/// What it means that the server lets nobody in. Nothing was sent, so it says nothing of the contents of a call. Where it let this client in before, somebody
/// changed something on its side and may change it back: calls go on when it does, and nothing is given up meanwhile.
fn refusal(sqlstate: &str, message: &str, connected: bool) -> (ErrorKind, String) {
    let (kind, text) = describe(sqlstate, message, ErrorKind::Unavailable);
    let is_of_the_url = kind == ErrorKind::PermissionDenied || sqlstate == "3D000";
    (if is_of_the_url && !connected { kind } else { ErrorKind::Unavailable }, text)
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorKind::{InvalidOption, PermissionDenied, Unavailable};

    #[test]
    fn a_server_that_lets_nobody_in_says_nothing_of_what_a_call_asks_for() {
        let kind = |sqlstate, connected| refusal(sqlstate, "", connected).0;
        // The store URL names the database and the login: who is never let in has to correct it.
        for (sqlstate, first) in [
            ("3D000", InvalidOption),
            ("28P01", PermissionDenied),
            ("28000", PermissionDenied),
            ("42501", PermissionDenied),
        ] {
            assert_eq!(
                [false, true].map(|connected| kind(sqlstate, connected)),
                [first, Unavailable],
                "{sqlstate}"
            );
        }
        // Connections are not allowed, there are too many, it starts, the database is being dropped, and whatever else.
        for sqlstate in ["55000", "53300", "57P03", "57P04", "42P01", "22023", "WL001", "XX000"] {
            assert_eq!(
                [false, true].map(|connected| kind(sqlstate, connected)),
                [Unavailable; 2],
                "{sqlstate}"
            );
        }
    }

    #[test]
    fn a_role_that_may_read_some_columns_is_told_what_gives_the_rest() {
        let worker = remedy("permission denied for table worker");
        assert!(worker.starts_with("`windlass grant viewer ROLE`"), "{worker}");
        assert!(worker.contains("all of it to read, `windlass grant worker ROLE` only"), "{worker}");
        let setting = remedy("permission denied for table setting");
        assert!(
            setting.starts_with("`windlass grant viewer ROLE` or `windlass grant worker ROLE`,"),
            "{setting}"
        );
        assert!(remedy("permission denied for table invoice").starts_with("use the owner"));
    }

    #[test]
    fn a_session_that_the_server_ends_says_nothing_of_what_was_sent() {
        let of_the_session = |severity| {
            let kinds = ["57P04", "57P05", "25P03"].map(|code| describe(code, "", Unavailable).0);
            kinds.map(|kind| is_of_the_session(severity, kind))
        };
        assert_eq!(of_the_session(Some(Severity::Fatal)), [true; 3]);
        assert_eq!(of_the_session(Some(Severity::Error)), [false; 3]);
        assert!(!is_of_the_session(Some(Severity::Fatal), PermissionDenied));
    }
}
