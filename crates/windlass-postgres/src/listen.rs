//! The connection that hears of new work: made again and again, and asked whether it still answers.

use crate::{
    deadline::Deadline,
    error::{Effect, store_error},
    lock::lock,
    pools::Pools,
    server::TlsStream,
};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};
use windlass_core::{Error, ErrorKind, Result};

/// The first and the longest pause between attempts to connect.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often the LISTEN connection has to show that it is alive. An armed worker hears nothing on a dead one
/// and would poll for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

/// What the task that listens and the wake-up share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The LISTEN connection, while there is one.
    ear: Mutex<Option<Arc<Ear>>>,
    pub(crate) hint: Notify,
    /// Whose jobs are worth a hint; empty: those of all.
    pub(crate) queues: Mutex<BTreeSet<String>>,
}

/// A connection that listens.
pub(crate) struct Ear {
    pub(crate) client: Client,
    /// It did not answer: make another.
    pub(crate) deaf: Notify,
}

impl Shared {
    pub(crate) fn ear(&self) -> Option<Arc<Ear>> {
        lock(&self.ear).clone()
    }

    /// Whether a notification is about a queue of ours. An empty payload may be about any.
    fn concerns(&self, payload: &str) -> bool {
        let queues = lock(&self.queues);
        payload.is_empty() || queues.is_empty() || queues.contains(payload)
    }

    pub(crate) fn forget(&self, gone: &Arc<Ear>) {
        let mut ear = lock(&self.ear);
        if ear.as_ref().is_some_and(|ear| Arc::ptr_eq(ear, gone)) {
            *ear = None;
        }
    }
}

/// Connects, listens, forwards hints; again and again, until the wake-up is dropped.
pub(crate) async fn keep_listening(pools: Arc<Pools>, shared: Arc<Shared>, listen: String) {
    let mut pause = RECONNECT.0;
    loop {
        match listen_once(&pools, &shared, &listen).await {
            Ok(()) => pause = RECONNECT.0,
            Err(error) => {
                tracing::debug!(%error, "no LISTEN connection, polling meanwhile");
                pause = (pause * 2).min(RECONNECT.1);
            }
        }
        *lock(&shared.ear) = None;
        shared.hint.notify_one();
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

/// One connection's life. Ends when it breaks, or does not answer any more.
async fn listen_once(pools: &Pools, shared: &Shared, listen: &str) -> Result<()> {
    let patience = pools.call_timeout();
    let connected = Deadline::after(patience).await_on(pin!(pools.dedicated())).await;
    let (client, connection) = connected.map_err(|_| silent("LISTEN", patience))??;
    let ear = Arc::new(Ear { client, deaf: Notify::new() });
    tokio::select! {
        () = forward(connection, shared) => Ok(()),
        ended = tend(&ear, pools, shared, listen) => ended,
    }
}

/// Drives the connection to its end.
async fn forward(mut connection: Connection<Socket, TlsStream>, shared: &Shared) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && shared.concerns(notification.payload())
        {
            shared.hint.notify_one();
        }
    }
}

/// Listens, offers the connection to the worker, and makes sure that it answers. An error only when it
/// never listened.
async fn tend(ear: &Arc<Ear>, pools: &Pools, shared: &Shared, listen: &str) -> Result<()> {
    let patience = pools.call_timeout();
    ask(ear, listen, patience).await?;
    *lock(&shared.ear) = Some(Arc::clone(ear));
    loop {
        tokio::select! {
            () = tokio::time::sleep(PING_EVERY) => {}
            // Another connection went silent, so this one may have, too.
            () = pools.doubted() => {}
            () = ear.deaf.notified() => return Ok(()),
        }
        if let Err(error) = ask(ear, "", patience).await {
            tracing::debug!(%error, "the LISTEN connection is made anew");
            shared.forget(ear);
            return Ok(());
        }
    }
}

async fn ask(ear: &Ear, sql: &str, patience: Duration) -> Result<()> {
    match Deadline::after(patience).await_on(pin!(ear.client.batch_execute(sql))).await {
        Ok(answer) => answer.map_err(|cause| store_error(cause, Effect::Repeatable)),
        Err(limit) => Err(silent("LISTEN", limit)),
    }
}

fn silent(what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}: no answer from PostgreSQL within {limit:?}"))
}
