//! The connection that LISTENs for new work: it is made again whenever it is lost, and asked whether it still answers.

use crate::{
    deadline::Deadline,
    error::{Effect, store_error},
    lock::lock,
    pools::Pools,
    server::TlsStream,
    session::NO_TIMEOUTS,
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
use windlass_core::{Error, ErrorKind, OnRequest, OnSchedules, Result, WorkerId};

/// The first and the longest pause between attempts to connect.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often the LISTEN connection has to show that it is alive. An armed worker gets no notification on a dead one
/// and would poll for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

/// The payload of a request begins so, which no queue's name does; the worker's number follows.
const REQUEST: char = '!';
/// The payload that says that schedules changed.
const SCHEDULES: &str = "@";

/// What the task that listens and the wake-up share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The LISTEN connection, while there is one.
    listener: Mutex<Option<Arc<Listener>>>,
    pub(crate) hint: Notify,
    /// The queues whose jobs are worth a hint; empty: all queues.
    pub(crate) queues: Mutex<BTreeSet<String>>,
    /// Told when a heartbeat has something to say.
    pub(crate) on_request: Mutex<Option<OnRequest>>,
    /// Told when schedules changed.
    pub(crate) on_schedules: Mutex<Option<OnSchedules>>,
}

/// A connection that listens.
pub(crate) struct Listener {
    pub(crate) client: Client,
    /// Told when it did not answer: another is made then.
    pub(crate) lost: Notify,
}

impl Shared {
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        lock(&self.listener).clone()
    }

    /// Whether a notification is about a queue of ours. An empty payload may be about any.
    fn concerns(&self, payload: &str) -> bool {
        let queues = lock(&self.queues);
        payload.is_empty() || queues.is_empty() || queues.contains(payload)
    }

    /// A notification came.
    fn notified(&self, payload: &str) {
        match payload.strip_prefix(REQUEST) {
            Some(worker) => self.requested(worker.parse().ok().map(WorkerId)),
            None if payload == SCHEDULES => self.schedules_changed(),
            None if self.concerns(payload) => self.hint.notify_one(),
            None => {}
        }
    }

    fn requested(&self, worker: Option<WorkerId>) {
        let told = lock(&self.on_request).clone();
        told.into_iter().for_each(|told| told(worker));
    }

    fn schedules_changed(&self) {
        let told = lock(&self.on_schedules).clone();
        told.into_iter().for_each(|told| told());
    }

    pub(crate) fn forget(&self, lost: &Arc<Listener>) {
        let mut listener = lock(&self.listener);
        if listener.as_ref().is_some_and(|listener| Arc::ptr_eq(listener, lost)) {
            *listener = None;
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
        *lock(&shared.listener) = None;
        shared.hint.notify_one();
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

/// One connection's life. Ends when it breaks, or does not answer any more.
async fn listen_once(pools: &Pools, shared: &Shared, listen: &str) -> Result<()> {
    let patience = pools.call_timeout();
    let connected = Deadline::after(patience).await_on(pin!(pools.dedicated())).await;
    let (client, connection) = connected.map_err(|_| silent("LISTEN", patience))??;
    let listener = Arc::new(Listener { client, lost: Notify::new() });
    tokio::select! {
        () = forward(connection, shared) => Ok(()),
        ended = keep_alive(&listener, pools, shared, listen) => ended,
    }
}

/// Drives the connection to its end.
async fn forward(mut connection: Connection<Socket, TlsStream>, shared: &Shared) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            shared.notified(notification.payload());
        }
    }
}

/// Listens, offers the connection to the worker, and pings it until it does not answer any more. An error only
/// when it never listened.
async fn keep_alive(listener: &Arc<Listener>, pools: &Pools, shared: &Shared, listen: &str) -> Result<()> {
    let patience = pools.call_timeout();
    ask(listener, &format!("SET statement_timeout = 0; {listen}; {NO_TIMEOUTS}"), patience).await?;
    *lock(&shared.listener) = Some(Arc::clone(listener));
    // What was asked for before is not told again.
    shared.requested(None);
    shared.schedules_changed();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PING_EVERY) => {}
            // Another connection went silent, so this one may have gone silent, too.
            () = pools.invalidated() => {}
            () = listener.lost.notified() => return Ok(()),
        }
        if let Err(error) = ask(listener, "", patience).await {
            tracing::debug!(%error, "the LISTEN connection is made anew");
            shared.forget(listener);
            return Ok(());
        }
    }
}

async fn ask(listener: &Listener, sql: &str, patience: Duration) -> Result<()> {
    match Deadline::after(patience).await_on(pin!(listener.client.batch_execute(sql))).await {
        Ok(answer) => answer.map_err(|cause| store_error(cause, Effect::Repeatable)),
        Err(limit) => Err(silent("LISTEN", limit)),
    }
}

fn silent(what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}: no answer from PostgreSQL within {limit:?}"))
}
