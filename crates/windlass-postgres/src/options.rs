use crate::{error::chain, server::Server, tls::TlsParameters};
use std::{ops::RangeInclusive, time::Duration};
use tokio_postgres::Config;
use windlass_core::{Error, ErrorKind, Limits, Result, StoreKind, redact_url};

/// How a [`PostgresStore`](crate::PostgresStore) works. Every default is right for most.
///
/// `schema`, `pooler`, `migrate`, `deploy_marks`, `pool_size` and `call_timeout` (whole seconds) may also be given in the URL:
/// `postgres://me@host/app?schema=jobs&pooler=transaction&migrate=auto&pool_size=3&call_timeout=20`.
///
/// TLS is asked for there too, as in libpq: `sslmode=disable`, `prefer` (the default), `require`,
/// `verify-ca` or `verify-full`, and `sslrootcert=FILE` (PEM) or `system`. Only `verify-full` shows that
/// the server is the right one: `sslmode=verify-full&sslrootcert=/etc/ssl/my-ca.pem`; without
/// `sslrootcert` the system's roots count.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// Bounds on what may be enqueued.
    pub limits: Limits,
    /// The schema that holds Windlass's tables. Default `windlass`.
    pub schema: String,
    /// The most connections that clients of this store use at once (a worker needs up to 7 more, 4 mostly).
    /// Default 10.
    pub pool_size: usize,
    /// Whether a transaction-mode pooler (PgBouncer) stands between: no prepared statements, no LISTEN.
    /// Default false.
    pub transaction_pooler: bool,
    /// Whether connecting migrates the schema when it is missing or older than this program; with several programs on one
    /// schema the newest version wins. The role needs the right to. Default false: `windlass migrate` does it.
    pub migrate: bool,
    /// Whether a worker of another version of its program marks a deploy, where this store's worker leads. Default true.
    pub marks_deploys: bool,
    /// How long a call may wait for a free connection, and then for its answer. A call that waited in vain
    /// fails as `unavailable`, or as `ambiguous` when it was a write under way; its connection is closed.
    ///
    /// Batches may take a second more for every 1,000 jobs; rescue, housekeeping and lists of jobs and queues 30
    /// times as long, on a server that answers; migrations have no limit. Keep it well below the workers'
    /// lease. Default 10 s.
    ///
    /// A call that is given up before, its future dropped, is told to stop at the server where it takes longer than 100 ms more. It may have happened all the same.
    pub call_timeout: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            schema: "windlass".into(),
            pool_size: 10,
            transaction_pooler: false,
            migrate: false,
            marks_deploys: true,
            call_timeout: Duration::from_secs(10),
        }
    }
}

/// How long a connection attempt may take when the URL does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without an answer to sent data a connection counts as dead.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);
/// When the kernel asks a silent peer whether it is there: after this pause, so often, so many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(3), 3);

impl PostgresOptions {
    /// Says where the URL leads without going there: for the fuzz target of URLs.
    #[doc(hidden)]
    pub fn place_of(self, url: &str) -> Result<String> {
        let (_, server) = self.read_url(url)?;
        Ok(server.name().to_owned())
    }

    /// Splits our own parameters off the URL and parses the rest.
    pub(crate) fn read_url(self, url: &str) -> Result<(Self, Server)> {
        check_user_part(url)?;
        self.read_parameters(url).map_err(|error| match has_odd_query(url) {
            // What follows may be the rest of a password, so the cause, which may name it, is left out.
            true => invalid(url, "write a plain ? in a password as %3F, and @ in a parameter as %40"),
            false => error,
        })
    }

    fn read_parameters(mut self, url: &str) -> Result<(Self, Server)> {
        if StoreKind::of(url)? != StoreKind::Postgres {
            return Err(invalid(url, "it does not start with postgres://"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut rest = Vec::new();
        let mut tls = TlsParameters::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", name)) => name.clone_into(&mut self.schema),
                Some(("pooler", "transaction")) => self.transaction_pooler = true,
                Some(("pooler", "none")) => self.transaction_pooler = false,
                Some(("pooler", other)) => {
                    return Err(invalid(url, &format!("pooler is {other:?}; use transaction or none")));
                }
                Some(("migrate", "auto")) => self.migrate = true,
                Some(("migrate", "never")) => self.migrate = false,
                Some(("migrate", other)) => {
                    return Err(invalid(url, &format!("migrate is {other:?}; use auto or never")));
                }
                Some(("deploy_marks", "on")) => self.marks_deploys = true,
                Some(("deploy_marks", "off")) => self.marks_deploys = false,
                Some(("deploy_marks", other)) => {
                    return Err(invalid(url, &format!("deploy_marks is {other:?}; use on or off")));
                }
                Some(("pool_size", value)) => self.pool_size = number(url, "pool_size", value, 1..=1_000)?,
                Some(("call_timeout", value)) => {
                    let seconds = number(url, "call_timeout", value, 1..=86_400)?;
                    self.call_timeout = Duration::from_secs(seconds as u64);
                }
                Some((key, value)) if tls.take(key, value).map_err(|why| invalid(url, &why))? => {}
                // Not named: it may be a password in the wrong place.
                None => return Err(invalid(url, "a parameter has no value; write it as name=value")),
                Some(_) => rest.push(pair),
            }
        }
        check_schema(&self.schema)?;
        if self.call_timeout.is_zero() {
            return Err(Error::new(ErrorKind::InvalidOption, "call_timeout is 0; allow some seconds"));
        }
        let says_idle = rest.iter().any(|pair| pair.starts_with("keepalives_idle="));
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config =
            plain.parse().map_err(|cause: tokio_postgres::Error| invalid(url, &chain(&cause)))?;
        if config.get_hosts().is_empty() {
            return Err(invalid(url, "it names no host"));
        }
        if config.get_user().is_none() {
            config.user(
                std::env::var("PGUSER").or_else(|_| std::env::var("USER")).unwrap_or("postgres".into()),
            );
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        keep_alive(&mut config, says_idle);
        if config.get_application_name().is_none() && !self.transaction_pooler {
            config.application_name("windlass");
        }
        let tls = tls.connector(&mut config).map_err(|why| invalid(url, &why))?;
        Ok((self, Server::new(config, tls)))
    }
}

/// A parameter that is a whole number.
fn number(url: &str, name: &str, value: &str, allowed: RangeInclusive<usize>) -> Result<usize> {
    value.parse().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        invalid(url, &format!("{name} is {value:?}; use a whole number of {least} to {most}"))
    })
}

/// Fills in what the URL did not say.
fn keep_alive(config: &mut Config, says_idle: bool) {
    let (idle, interval, retries) = KEEPALIVE;
    if !says_idle {
        config.keepalives_idle(idle);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(interval);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(retries);
    }
}

/// Refuses a plain `@` in a password: the driver ends it there and takes the rest for a host, which every
/// message about the connection would name.
fn check_user_part(url: &str) -> Result<()> {
    let before_query = url.split('?').next().unwrap_or_default();
    if before_query.matches('@').count() > 1 {
        return Err(invalid(url, "it has more than one @; write those in a name or password as %40"));
    }
    Ok(())
}

/// Whether the query may have begun within a password.
fn has_odd_query(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_once('?').is_some_and(|(before, query)| before.contains(':') && query.contains('@'))
}

/// The longest schema name. Channels of NOTIFY are named after it, with a few characters more, and have 63 bytes at most.
const MOST_NAME: usize = 50;

/// A schema name goes into SQL text, so it is checked as well as quoted.
fn check_schema(name: &str) -> Result<()> {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    if starts
        && name.len() <= MOST_NAME
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with("pg_")
    {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidName,
        format!(
            "invalid schema name {name:?}; use 1 to {MOST_NAME} of a-z, 0-9 and _, not starting with a digit or pg_"
        ),
    ))
}

fn invalid(url: &str, why: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("invalid store URL {:?}: {why}", redact_url(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(PostgresOptions, Config)> {
        PostgresOptions::default().read_url(url).map(|(options, server)| (options, server.config().clone()))
    }

    #[test]
    fn own_parameters_are_split_off() {
        let (options, config) =
            read("postgres://u:p@h:1234/d?schema=jobs_2&pooler=transaction&deploy_marks=off&connect_timeout=3&pool_size=3&call_timeout=20").unwrap();
        assert_eq!(options.schema, "jobs_2");
        assert_eq!((options.pool_size, options.call_timeout), (3, Duration::from_secs(20)));
        assert!(options.transaction_pooler && !options.marks_deploys);
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(config.get_dbname(), Some("d"));
    }

    #[test]
    fn keepalives_are_on_unless_the_url_says_otherwise() {
        let (_, config) = read("postgres://h/d").unwrap();
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(10));
        assert_eq!(config.get_keepalives_interval(), Some(Duration::from_secs(3)));
        let (_, config) = read("postgres://h/d?keepalives_idle=7200&keepalives_retries=9").unwrap();
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(7200));
        assert_eq!(config.get_keepalives_retries(), Some(9));
    }

    #[test]
    fn a_call_needs_time() {
        let options = PostgresOptions { call_timeout: Duration::ZERO, ..PostgresOptions::default() };
        assert_eq!(options.read_url("postgres://h/d").err().unwrap().kind(), ErrorKind::InvalidOption);
    }

    #[test]
    fn bad_urls_say_why_and_hide_the_password() {
        for url in [
            "postgres://",
            "postgres://u:secret@h:port/d",
            "postgres://u:se@secret@h/d",
            "postgres://u:se?pooler=secret@h/d",
            "postgres://u:se?schema=secret@h/d",
            "postgres://u:secret@h/d?nope=1",
            "postgres://u:secret@h/d?pooler=x",
            "postgres://u:secret@h/d?deploy_marks=no",
            "postgres://u:secret@h/d?pool_size=0",
            "postgres://u:secret@h/d?call_timeout=20s",
            "postgres://u:secret@h/d?sslmode=maybe",
            "postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/nowhere.pem",
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn schema_names_are_checked() {
        for name in ["", "A", "1a", "a-b", "a;b", "pg_x", "ä", &"a".repeat(51)] {
            let error = read(&format!("postgres://h/d?schema={name}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{name:?}");
        }
    }
}
