//! A TCP proxy that understands the PostgreSQL protocol and breaks it on request.
//!
//! It stands between clients and one server, follows the messages of both (without TLS), and its behaviour
//! may be changed at any time. Whatever it decides by chance it decides from a seed.

mod commit_cuts;
mod counts;
mod faults;
mod framer;
mod lost;
mod outbound;
mod session;
mod sql;
mod tracker;

pub use commit_cuts::{Chance, CommitCuts, CutPoint};
pub use counts::Counts;
pub use faults::Direction;
pub use sql::{first_word, writes};

use anyhow::{Context, Result};
use counts::Counters;
use faults::Faults;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};

/// The most connections at a time; what comes on top is refused.
const MAX_CONNECTIONS: usize = 4096;
/// The pause after an accept that failed, as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The proxy. It ends, and cuts its connections, when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    task: AbortHandle,
}

/// What the caller's side and the connections have in common.
struct Shared {
    faults: watch::Sender<Faults>,
    counters: Counters,
    seed: u64,
}

impl Proxy {
    /// Listens on a free port of the loopback interface and passes everything on to `upstream`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        Self::start_seeded(upstream, 0).await
    }

    /// As [`Self::start`], with the seed of the jitter.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start_seeded(upstream: SocketAddr, seed: u64) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the proxy cannot listen")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            faults: watch::Sender::new(Faults::none(upstream)),
            counters: Counters::default(),
            seed,
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { shared, port, task })
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A `postgres://` URL with this proxy in the place of its server.
    ///
    /// # Errors
    /// When it is no URL with a host.
    pub fn url_of(&self, base: &str) -> Result<String> {
        let (scheme, rest) = base.split_once("://").with_context(|| format!("no URL: {base}"))?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let user = authority.rfind('@').map_or("", |at| &authority[..=at]);
        Ok(format!("{scheme}://{user}127.0.0.1:{}{path}", self.port))
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut sessions = JoinSet::new();
    for number in 0_u64.. {
        let client = loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => break client,
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
                Some(_) = sessions.join_next() => {}
            }
        };
        if sessions.len() >= MAX_CONNECTIONS || shared.faults.borrow().refuse {
            shared.counters.refused();
            reset(&client);
        } else {
            sessions.spawn(session::run(client, Arc::clone(&shared), number));
        }
    }
}

/// The peer will see "connection reset" when the socket is dropped, not an orderly end.
fn reset(socket: &TcpStream) {
    let _ = socket.set_zero_linger();
}
