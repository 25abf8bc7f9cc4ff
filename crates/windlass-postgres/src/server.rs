use crate::error::{chain, connect_error};
use std::{
    error::Error as _,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_postgres::{
    Client, Config, Connection, Socket,
    config::{Host, SslMode},
    error::SqlState,
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::{Error, ErrorKind};

/// The encrypted half of a connection that may be encrypted.
pub(crate) type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// The database server of a store: how every connection to it is made. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    config: Arc<Config>,
    tls: MakeRustlsConnect,
    /// Hosts and port for messages.
    name: Arc<str>,
    /// It has let this client in.
    connected: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn new(config: Config, tls: MakeRustlsConnect) -> Self {
        Self { name: name_of(&config).into(), config: Arc::new(config), tls, connected: Arc::default() }
    }

    #[cfg(test)]
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Connects; with `sslmode=prefer` without TLS when the server offers it and then it fails, as
    /// libpq does: such a server must not be worse than one without TLS.
    pub(crate) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, TlsStream>), tokio_postgres::Error> {
        let connected = self.try_to_connect().await?;
        self.connected.store(true, Ordering::Relaxed);
        Ok(connected)
    }

    async fn try_to_connect(&self) -> Result<(Client, Connection<Socket, TlsStream>), tokio_postgres::Error> {
        let cause = match self.config.connect(self.tls.clone()).await {
            Err(cause) if self.config.get_ssl_mode() == SslMode::Prefer && is_for_tls(&cause) => cause,
            done => return done,
        };
        tracing::debug!(error = %chain(&cause), "no TLS connection, trying without");
        let mut plain = Config::clone(&self.config);
        plain.ssl_mode(SslMode::Disable);
        // When both fail, the first says more: it got further.
        plain.connect(self.tls.clone()).await.map_err(|_| cause)
    }

    /// Turns a failed attempt to connect into ours. All of them are outages to a running worker, even a
    /// bad certificate, or a database of that name that is not there any more: it is the server's, and whoever runs it will replace it.
    pub(crate) fn error(&self, cause: tokio_postgres::Error) -> Error {
        let server = &self.name;
        let text = if let Some(tls) = tls_error(&cause) {
            let hint = match tls {
                rustls::Error::InvalidCertificate(_) => {
                    "check the certificate, sslrootcert and the host in the store URL"
                }
                _ => "check the server's TLS settings and sslmode in the store URL",
            };
            format!("no TLS connection to PostgreSQL at {server}: {tls}; {hint}")
        } else if chain(&cause).contains("server does not support TLS") {
            format!(
                "PostgreSQL at {server} offers no TLS, which sslmode in the store URL requires; \
                 set ssl = on in the server, or use sslmode=prefer"
            )
        } else {
            return connect_error(cause, server, self.connected.load(Ordering::Relaxed));
        };
        Error::new(ErrorKind::Unavailable, text).with_source(cause)
    }
}

/// Whether an attempt failed for being encrypted: the handshake, or a server whose rules allow this login
/// only without TLS.
fn is_for_tls(cause: &tokio_postgres::Error) -> bool {
    tls_error(cause).is_some() || cause.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

fn tls_error(cause: &tokio_postgres::Error) -> Option<&rustls::Error> {
    cause.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

fn name_of(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{}:{port}", hosts.collect::<Vec<_>>().join(","))
}
