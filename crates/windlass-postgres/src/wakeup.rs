use crate::{
    connection::Connections,
    deadline::Deadline,
    error::{Effect, store_error},
    server::TlsStream,
    sql::render,
    store::{Caches, lock},
};
use async_trait::async_trait;
use futures_util::FutureExt;
use std::{
    collections::BTreeSet,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};
use windlass_core::{Error, ErrorKind, Result, Wake, Wakeup};

/// The longest wait while there is no LISTEN connection: nothing else would tell of new work.
const UNARMED_POLL: Duration = Duration::from_millis(25);
/// The first and the longest pause between attempts to connect.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long arming may hold up the polling that goes on meanwhile.
const ARM_PATIENCE: Duration = Duration::from_secs(2);
/// How often the LISTEN connection has to show that it is alive. An armed worker hears nothing on a dead one
/// and would poll for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Waits for work by LISTEN on a connection of its own, which it keeps alive for ever; behind a
/// transaction-mode pooler it only sleeps.
pub(crate) struct PostgresWakeup {
    shared: Arc<Shared>,
    /// The connection whose session holds the idle flag; gone with it.
    armed: Option<Weak<Ear>>,
    /// Between `arm` and `disarm`.
    idle: bool,
    caches: Arc<Caches>,
    schema: Box<str>,
    arm_patience: Duration,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The LISTEN connection, while there is one.
    ear: Mutex<Option<Arc<Ear>>>,
    hint: Notify,
    /// Whose jobs are worth a hint; empty: those of all.
    queues: Mutex<BTreeSet<String>>,
}

/// A connection that listens.
struct Ear {
    client: Client,
    /// It did not answer: make another.
    deaf: Notify,
}

impl PostgresWakeup {
    pub(crate) fn start(connections: Arc<Connections>, caches: Arc<Caches>, schema: &str) -> Self {
        let shared = Arc::new(Shared::default());
        let arm_patience = connections.call_timeout().min(ARM_PATIENCE);
        let listen = render("LISTEN {schema}", schema);
        let listener = (!connections.is_pooled_by_transaction())
            .then(|| tokio::spawn(keep_listening(connections, Arc::clone(&shared), listen)));
        Self { shared, armed: None, idle: false, caches, schema: schema.into(), arm_patience, listener }
    }

    fn ear(&self) -> Option<Arc<Ear>> {
        lock(&self.shared.ear).clone()
    }

    fn is_armed_on(&self, ear: &Arc<Ear>) -> bool {
        self.armed.as_ref().is_some_and(|armed| std::ptr::eq(armed.as_ptr(), Arc::as_ptr(ear)))
    }

    /// Takes the idle flags of the workers' queues in shared mode on the LISTEN session: enqueues see them and
    /// notify. See wake() in 03_lane.sql. Before a worker has registered, those of all queues.
    async fn take_flag(&mut self) -> bool {
        let Some(ear) = self.ear() else { return false };
        if self.is_armed_on(&ear) {
            return true;
        }
        let queues = self.caches.queues();
        let sql = render(&take_flags(&queues), &self.schema);
        *lock(&self.shared.queues) = queues;
        let taking = pin!(ear.client.batch_execute(&sql));
        let taken = matches!(Deadline::after(self.arm_patience).await_on(taking).await, Ok(Ok(())));
        if !taken {
            // From now on this one counts as gone, so nobody asks it again.
            self.shared.forget(&ear);
            ear.deaf.notify_one();
        }
        self.armed = taken.then(|| Arc::downgrade(&ear));
        taken
    }
}

/// The statement that takes flag 0 and those of these queues. Names of queues are plain: they were checked.
fn take_flags(queues: &BTreeSet<String>) -> String {
    let flags = match queues.is_empty() {
        true => "generate_series(1, 32) AS flag".to_owned(),
        false => {
            let names: Vec<_> = queues.iter().map(|name| format!("\"{name}\"")).collect();
            format!(
                "(SELECT DISTINCT 1 + (hashtext(q) & 31) AS flag FROM unnest('{{{}}}'::text[]) AS q) AS f",
                names.join(",")
            )
        }
    };
    format!(
        "SELECT pg_advisory_lock_shared(hashtext({{idle}}), 0);
         SELECT pg_advisory_lock_shared(hashtext({{idle}}), flag) FROM {flags}"
    )
}

impl Shared {
    /// Whether a notification is about a queue of ours. An empty payload may be about any.
    fn concerns(&self, payload: &str) -> bool {
        let queues = lock(&self.queues);
        payload.is_empty() || queues.is_empty() || queues.contains(payload)
    }

    fn forget(&self, gone: &Arc<Ear>) {
        let mut ear = lock(&self.ear);
        if ear.as_ref().is_some_and(|ear| Arc::ptr_eq(ear, gone)) {
            *ear = None;
        }
    }
}

impl Drop for PostgresWakeup {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

#[async_trait]
impl Wakeup for PostgresWakeup {
    async fn arm(&mut self) {
        self.idle = true;
        self.take_flag().await;
    }

    async fn wait(&mut self, timeout: Duration) -> Wake {
        let mut timeout = timeout;
        if self.listener.is_some() {
            match self.ear() {
                // A new connection: what came between the two is unknown, so look for work once more.
                Some(ear) if self.idle && !self.is_armed_on(&ear) => {
                    self.take_flag().await;
                    return Wake::Hint;
                }
                Some(_) => {}
                None => timeout = timeout.min(UNARMED_POLL),
            }
        }
        match tokio::time::timeout(timeout, self.shared.hint.notified()).await {
            Ok(()) => Wake::Hint,
            Err(_) => Wake::Timeout,
        }
    }

    fn disarm(&mut self) {
        self.idle = false;
        if self.armed.take().is_none() {
            return;
        }
        if let Some(ear) = self.ear() {
            // Polled once, which sends it; the driver drains the answer. Order on the connection is kept,
            // so a later arm comes after it.
            let _ = ear.client.batch_execute("SELECT pg_advisory_unlock_all()").now_or_never();
        }
    }
}

/// Connects, listens, forwards hints; again and again, until the wake-up is dropped.
async fn keep_listening(connections: Arc<Connections>, shared: Arc<Shared>, listen: String) {
    let mut pause = RECONNECT.0;
    loop {
        match listen_once(&connections, &shared, &listen).await {
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
async fn listen_once(connections: &Connections, shared: &Shared, listen: &str) -> Result<()> {
    let patience = connections.call_timeout();
    let connected = Deadline::after(patience).await_on(pin!(connections.dedicated())).await;
    let (client, connection) = connected.map_err(|_| silent("LISTEN", patience))??;
    let ear = Arc::new(Ear { client, deaf: Notify::new() });
    tokio::select! {
        () = forward(connection, shared) => Ok(()),
        ended = tend(&ear, connections, shared, listen) => ended,
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
async fn tend(ear: &Arc<Ear>, connections: &Connections, shared: &Shared, listen: &str) -> Result<()> {
    let patience = connections.call_timeout();
    ask(ear, listen, patience).await?;
    *lock(&shared.ear) = Some(Arc::clone(ear));
    loop {
        tokio::select! {
            () = tokio::time::sleep(PING_EVERY) => {}
            // Another connection went silent, so this one may have, too.
            () = connections.doubted() => {}
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
