use crate::{connection::Connections, sql::render, store::lock};
use async_trait::async_trait;
use futures_util::FutureExt;
use std::{
    future::poll_fn,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::{Result, Wake, Wakeup};

/// The longest wait while there is no LISTEN connection: nothing else would tell of new work.
const UNARMED_POLL: Duration = Duration::from_millis(25);
/// The first and the longest pause between attempts to connect.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Waits for work by LISTEN on a connection of its own, which it keeps alive for ever; behind a
/// transaction-mode pooler it only sleeps.
pub(crate) struct PostgresWakeup {
    shared: Arc<Shared>,
    /// The connection whose session holds the idle flag; gone with it.
    armed: Option<Weak<Client>>,
    /// Between `arm` and `disarm`.
    idle: bool,
    lock_sql: String,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The LISTEN connection, while there is one.
    client: Mutex<Option<Arc<Client>>>,
    hint: Notify,
}

impl PostgresWakeup {
    pub(crate) fn start(connections: Arc<Connections>, schema: &str) -> Self {
        let shared = Arc::new(Shared::default());
        let listen = render("LISTEN {schema}", schema);
        let listener = (!connections.is_pooled_by_transaction())
            .then(|| tokio::spawn(keep_listening(connections, Arc::clone(&shared), listen)));
        Self {
            shared,
            armed: None,
            idle: false,
            lock_sql: render("SELECT pg_advisory_lock_shared(hashtext({name} || '.idle'), 0)", schema),
            listener,
        }
    }

    fn client(&self) -> Option<Arc<Client>> {
        lock(&self.shared.client).clone()
    }

    fn is_armed_on(&self, client: &Arc<Client>) -> bool {
        self.armed.as_ref().is_some_and(|armed| std::ptr::eq(armed.as_ptr(), Arc::as_ptr(client)))
    }

    /// Takes the idle flag in shared mode on the LISTEN session: enqueues see it and notify. See wake() in
    /// 03_enqueue.sql.
    async fn take_flag(&mut self) -> bool {
        let Some(client) = self.client() else { return false };
        if self.is_armed_on(&client) {
            return true;
        }
        let taken = client.batch_execute(&self.lock_sql).await.is_ok();
        self.armed = taken.then(|| Arc::downgrade(&client));
        taken
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
            match self.client() {
                // A new connection: what came between the two is unknown, so look for work once more.
                Some(client) if self.idle && !self.is_armed_on(&client) => {
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
        if let Some(client) = self.client() {
            // Polled once, which sends it; the driver drains the answer. Order on the connection is kept,
            // so a later arm comes after it.
            let _ = client.batch_execute("SELECT pg_advisory_unlock_all()").now_or_never();
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
        *lock(&shared.client) = None;
        shared.hint.notify_one();
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

/// One connection's life. Ends when it breaks.
async fn listen_once(connections: &Connections, shared: &Arc<Shared>, listen: &str) -> Result<()> {
    let (client, mut connection) = connections.dedicated().await?;
    let client = Arc::new(client);
    let starting = {
        let (client, shared, listen) = (Arc::clone(&client), Arc::clone(shared), listen.to_owned());
        async move {
            if client.batch_execute(&listen).await.is_ok() {
                *lock(&shared.client) = Some(client);
            }
        }
    };
    let messages = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                shared.hint.notify_one();
            }
        }
    };
    // The connection must be driven while LISTEN waits for its answer; its end ends both.
    drop(client);
    let started = tokio::spawn(starting);
    messages.await;
    started.abort();
    Ok(())
}
