//! HTTP workers (docs/protocols/http.md): who is registered here, and what keeps the store going for them.
//!
//! What becomes of jobs is the engine's to decide ([`windlass::remote`]). Here are the names by which workers come back, those who wait, and
//! one listener for all of them. Nothing of it outlives the process: who is not known registers anew.

mod member;
mod register;
mod reports;
mod said;
mod turn;
mod waiters;

pub(crate) use member::Member;
pub(crate) use register::Register;
pub(crate) use reports::{Report, read as read_reports, reports, store as store_reports};
pub(crate) use said::{TurnAnswer, receipts};
pub(crate) use turn::turn;

use crate::{auth::Identity, problem::Problem};
use axum::http::StatusCode;
use said::TurnBody;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::OnceCell,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use waiters::Waiters;
use windlass::{
    Client, Error, ErrorKind, Opener, Worker, WorkerId,
    remote::{Hints, RemoteWorker},
};

/// The most workers that one process knows.
const MOST: usize = 10_000;
/// How often those who wait look without a hint, and who was silent for long is forgotten.
const POLL: Duration = Duration::from_secs(1);
/// The least time between two rounds of hints.
const SPACING: Duration = Duration::from_millis(2);
/// How soon it is noticed that a worker died: a third of it.
const KEEPER_LEASE: Duration = Duration::from_secs(9);
/// How often it is looked whether calls have ended.
const GLANCE: Duration = Duration::from_millis(5);
/// What calls under way may take to end at a stop; those that wait end at once.
const CALLS: Duration = Duration::from_secs(2);
/// What telling the store that the workers are gone may take at a stop.
const LAST_CALL: Duration = Duration::from_secs(5);

pub(crate) struct Work {
    client: Client,
    /// Where the server has keys: its workers are given encrypted jobs, open.
    opener: Option<Arc<Opener>>,
    members: Mutex<HashMap<WorkerId, Arc<Member>>>,
    waiters: Arc<Waiters>,
    /// From the first registration on.
    keeper: OnceCell<Worker>,
    /// Ends of workers that nobody waits for.
    ends: Mutex<JoinSet<()>>,
    /// How many requests of workers are answered.
    requests: AtomicUsize,
    stop: CancellationToken,
}

/// A request of a worker that is not answered yet, until it is dropped.
pub(crate) struct Request(Arc<Work>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Work {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        let (members, waiters, ends) = (Mutex::default(), Arc::default(), Mutex::default());
        let opener = client.opener().map(Arc::new);
        let (keeper, requests) = (OnceCell::new(), AtomicUsize::new(0));
        Self { client, opener, members, waiters, keeper, ends, requests, stop }
    }

    /// A worker says something; its body may still be on its way.
    pub(crate) fn request(self: &Arc<Self>) -> Request {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Request(Arc::clone(self))
    }

    /// Registers a worker; gives the name by which it comes back, which is its secret.
    pub(crate) async fn register(
        self: &Arc<Self>,
        identity: &Identity,
        said: Register,
    ) -> Result<(String, Arc<Member>), Problem> {
        if self.stop.is_cancelled() {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the server stops")
                .retry_after(1));
        }
        if self.lock().len() >= MOST {
            let detail = format!("{MOST} workers are registered here; start another server");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many", detail).retry_after(5));
        }
        let checkpoints = said.checkpoints;
        let spec = said.spec(identity.actor(), self.opener.is_some())?;
        self.keeper.get_or_try_init(|| self.keep()).await?;
        let remote = RemoteWorker::register(Arc::clone(self.client.store()), spec).await?;
        let (name, member) = Member::new(identity.actor(), remote, checkpoints, self.opener.clone())?;
        tracing::info!(target: "windlass::audit", actor = identity.actor(), worker = %member.remote.id(), "an HTTP worker registered");
        self.lock().insert(member.remote.id(), Arc::clone(&member));
        Ok((name, member))
    }

    /// The worker of this name, for who registered it.
    pub(crate) fn find(&self, name: &str, identity: &Identity) -> Result<Arc<Member>, Problem> {
        let nobody =
            || Problem::not_found("there is no such worker; its name is what its registration answered");
        let (id, secret) = name.split_once('.').ok_or_else(nobody)?;
        let id = WorkerId(id.parse().map_err(|_| nobody())?);
        let member = self.lock().get(&id).cloned();
        let member = member.ok_or_else(|| gone(id))?;
        if !member.is_of(identity.actor(), secret) {
            return Err(nobody());
        }
        Ok(member)
    }

    /// Ends a worker.
    pub(crate) async fn end(&self, member: &Member) -> Result<(), Problem> {
        member.remote.end().await?;
        self.lock().remove(&member.remote.id());
        Ok(())
    }

    /// Those that registered as somebody who may not work any more are known no more, and what they have goes back. Nobody waits for that, as a
    /// store that does not answer would keep what else changes waiting.
    pub(crate) fn end_those(&self, is_over: impl Fn(&str) -> bool) {
        let over: Vec<_> = self.lock().extract_if(|_, member| is_over(member.actor())).collect();
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        while ends.try_join_next().is_some() {}
        over.into_iter().for_each(|(_, member)| drop(ends.spawn(hand_back(member))));
    }

    /// The server stops: what its workers have goes back at once, without using up attempts.
    pub(crate) async fn close(&self) {
        let ended = async {
            let _ = timeout(CALLS, self.quiet()).await; // what they hand in is settled before their ends
            let mut ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
            self.lock().drain().for_each(|(_, member)| drop(ends.spawn(hand_back(member))));
            while ends.join_next().await.is_some() {}
            if let Some(keeper) = self.keeper.get() {
                keeper.shutdown().await;
            }
        };
        if timeout(LAST_CALL, ended).await.is_err() {
            tracing::warn!(
                "the store did not answer; it will notice by their leases that the HTTP workers are gone"
            );
        }
    }

    /// Waits until no worker's request is under way.
    async fn quiet(&self) {
        while self.requests.load(Ordering::Relaxed) > 0 {
            sleep(GLANCE).await;
        }
    }

    async fn keep(self: &Arc<Self>) -> Result<Worker, Error> {
        let keeper = Worker::keep(&self.client, "windlass serve", KEEPER_LEASE).await?;
        let work = Arc::downgrade(self);
        let told = move |id: Option<WorkerId>| {
            work.upgrade().into_iter().for_each(|work| work.tell(id));
        };
        let hints = Hints::new(self.client.store(), told);
        tokio::spawn(listen(Arc::downgrade(self), hints, self.stop.clone()));
        Ok(keeper)
    }

    /// The store has something to say to a worker; `None`: to any.
    fn tell(&self, id: Option<WorkerId>) {
        let members = self.lock();
        match id {
            Some(id) => members.get(&id).into_iter().for_each(|member| member.tell()),
            None => members.values().for_each(|member| member.tell()),
        }
    }

    /// Forgets who was silent for so long that its jobs are others' by now. Tells the store what was measured, also of those who say nothing.
    fn sweep(&self) {
        self.lock().retain(|_, member| {
            let is_forgotten = member.is_forgotten();
            if is_forgotten {
                member.remote.tell_rest();
            } else {
                member.remote.tell_when_due();
            }
            !is_forgotten
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn hand_back(member: Arc<Member>) {
    if let Err(error) = member.remote.end().await {
        tracing::warn!(%error, "could not hand an HTTP worker's jobs back; its lease will end");
    }
    member.tell();
}

/// Not known here; so the client registers anew.
fn gone(id: WorkerId) -> Problem {
    let message = format!(
        "worker {id} is not known here: it was silent for its lease, ended, or the server was started anew; register again"
    );
    Error::new(ErrorKind::LeaseLost, message).into()
}

/// Wakes those who wait when there may be jobs for them.
async fn listen(work: Weak<Work>, mut hints: Hints, stop: CancellationToken) {
    let mut next_sweep = Instant::now();
    loop {
        let Some(work) = work.upgrade() else { return };
        // Hints come more often than there is something to sweep.
        if next_sweep <= Instant::now() {
            work.sweep();
            next_sweep = Instant::now() + POLL;
        }
        let waiters = Arc::clone(&work.waiters);
        drop(work);
        if waiters.is_empty() {
            hints.disarm();
            tokio::select! {
                () = stop.cancelled() => break,
                () = waiters.entered() => {}
                () = sleep(POLL) => continue,
            }
        }
        hints.arm().await;
        waiters.wake_one_of_each();
        tokio::select! {
            () = stop.cancelled() => break,
            hinted = hints.wait(POLL) => if hinted { sleep(SPACING).await },
        }
    }
    hints.disarm();
}
