use crate::{
    caches::Caches,
    database::Database,
    deadline::Deadline,
    listen::{Listener, Shared, keep_listening},
    lock::lock,
    sql::render,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::task::JoinHandle;
use windlass_core::{OnRequest, OnSchedules, Wake, Wakeup};

/// The longest wait while there is no LISTEN connection: nothing else would tell of new work.
const UNARMED_POLL: Duration = Duration::from_millis(25);
/// How long arming may hold up the polling that goes on meanwhile.
const ARM_PATIENCE: Duration = Duration::from_secs(2);

/// Waits for work by LISTEN on a connection of its own, which it keeps alive for ever; behind a
/// transaction-mode pooler it only sleeps.
pub(crate) struct PostgresWakeup {
    shared: Arc<Shared>,
    /// The connection whose session holds the idle flag; gone with it.
    armed: Option<Weak<Listener>>,
    /// Between `arm` and `disarm`.
    idle: bool,
    caches: Arc<Caches>,
    schema: Arc<str>,
    arm_patience: Duration,
    /// Keeps the LISTEN connection; none behind a transaction-mode pooler.
    listening: Option<JoinHandle<()>>,
}

impl PostgresWakeup {
    pub(crate) fn start(db: &Database) -> Self {
        let shared = Arc::new(Shared::default());
        let arm_patience = db.pools.call_timeout().min(ARM_PATIENCE);
        let listening = (!db.is_pooled_by_transaction()).then(|| {
            let listen =
                keep_listening(Arc::clone(&db.pools), Arc::clone(&shared), db.sql("LISTEN {schema}"));
            tokio::spawn(listen)
        });
        let (caches, schema) = (Arc::clone(&db.caches), Arc::clone(&db.schema));
        Self { shared, armed: None, idle: false, caches, schema, arm_patience, listening }
    }

    fn is_armed_on(&self, listener: &Arc<Listener>) -> bool {
        self.armed.as_ref().is_some_and(|armed| std::ptr::eq(armed.as_ptr(), Arc::as_ptr(listener)))
    }

    /// Takes the idle flags of the workers' queues in shared mode on the LISTEN session: enqueues see them and
    /// notify. See wake() in 03_lane.sql. Before a worker has registered, those of all queues.
    async fn take_flag(&mut self) -> bool {
        let Some(listener) = self.shared.listener() else { return false };
        if self.is_armed_on(&listener) {
            return true;
        }
        let queues = self.caches.queues();
        let sql = render(&take_flags(&queues), &self.schema);
        *lock(&self.shared.queues) = queues;
        let taking = pin!(listener.client.batch_execute(&sql));
        let taken = matches!(Deadline::after(self.arm_patience).await_on(taking).await, Ok(Ok(())));
        if !taken {
            // From now on this connection counts as lost, so nobody asks it again.
            self.shared.forget(&listener);
            listener.lost.notify_one();
        }
        self.armed = taken.then(|| Arc::downgrade(&listener));
        taken
    }
}

impl Drop for PostgresWakeup {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
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
        if self.listening.is_some() {
            match self.shared.listener() {
                // A new connection. What was announced between the old one and this is unknown, so look for work
                // once more.
                Some(listener) if self.idle && !self.is_armed_on(&listener) => {
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
        if let Some(listener) = self.shared.listener() {
            // Polled once, which sends it; the driver drains the answer. Order on the connection is kept,
            // so a later arm comes after it.
            let _ = listener.client.batch_execute("SELECT pg_advisory_unlock_all()").now_or_never();
        }
    }

    fn on_request(&mut self, told: OnRequest) {
        *lock(&self.shared.on_request) = Some(told);
    }

    fn on_schedules(&mut self, told: OnSchedules) {
        let caches = Arc::clone(&self.caches);
        // One that was declared in a transaction that took long is due since before the last look.
        *lock(&self.shared.on_schedules) = Some(Arc::new(move || {
            lock(&caches.due_schedules).forget();
            told();
        }));
    }

    /// PostgreSQL wakes every session that LISTENs in the database, whatever its channel.
    fn listeners(&self) -> usize {
        self.caches.live_workers()
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
