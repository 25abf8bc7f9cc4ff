use crate::auth::{Hash, hex, random};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use windlass::{
    Args, Opener, Outcome, Result,
    remote::{RemoteJob, RemoteWorker, Ticket},
};

/// How long after the end of its lease a silent worker is still answered by the store, not by us.
const REMEMBERED: Duration = Duration::from_secs(10);

/// A worker that is registered here.
pub(crate) struct Member {
    pub(crate) remote: Arc<RemoteWorker>,
    /// It wants the last checkpoint of each job: a look at the store that others need not pay for.
    pub(super) checkpoints: bool,
    opener: Option<Arc<Opener>>,
    /// Fires when the store has something to say.
    pub(super) told: Notify,
    secret: Hash,
    /// Whose token it registered with.
    actor: String,
    /// What its receipts begin with, so that those of another registration are not taken for its own.
    tag: String,
    seen: Mutex<Instant>,
    calls: AtomicUsize,
}

impl Member {
    /// One with a new secret; gives its name.
    pub(super) fn new(
        actor: &str,
        remote: Arc<RemoteWorker>,
        checkpoints: bool,
        opener: Option<Arc<Opener>>,
    ) -> Result<(String, Arc<Self>)> {
        let random = random()?;
        let (secret, tag) = (hex(&random[..16]), hex(&random[16..20]));
        let name = format!("{}.{secret}", remote.id());
        let member = Self {
            remote,
            checkpoints,
            opener,
            told: Notify::new(),
            secret: Hash::of(&secret),
            actor: actor.to_owned(),
            tag,
            seen: Mutex::new(Instant::now()),
            calls: AtomicUsize::new(0),
        };
        Ok((name, Arc::new(member)))
    }

    pub(super) fn is_of(&self, actor: &str, secret: &str) -> bool {
        self.secret.is(&Hash::of(secret)) && self.actor == actor
    }

    /// What it says of its memory, where it says so.
    pub(crate) fn uses_memory(&self, bytes: Option<u64>) {
        bytes.into_iter().for_each(|bytes| self.remote.uses_memory(bytes));
    }

    /// Who it registered as.
    pub(super) fn actor(&self) -> &str {
        &self.actor
    }

    /// What a job is handed in with.
    pub(super) fn receipt(&self, ticket: Ticket) -> String {
        format!("{}.{}", self.tag, ticket.0)
    }

    /// The ticket of a receipt; one that nobody has for what is none.
    pub(super) fn ticket(&self, receipt: &str) -> Ticket {
        let number = receipt.strip_prefix(&self.tag).and_then(|rest| rest.strip_prefix('.'));
        let is_plain = |number: &&str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Ticket(number.filter(is_plain).and_then(|number| number.parse().ok()).unwrap_or_default())
    }

    /// Opens the args of an encrypted job, and the checkpoint that an attempt before left; whether it is one. Otherwise what becomes of it.
    pub(super) fn open(&self, given: &mut RemoteJob, checkpoint: &mut Option<Args>) -> Result<bool, Outcome> {
        let Some(opener) = self.opener.as_ref().filter(|_| Opener::is_encrypted(&given.job)) else {
            return Ok(false);
        };
        let args = opener.args(&given.job)?;
        if let Some(stored) = checkpoint {
            let opened = opener.checkpoint(&given.job, stored);
            *stored = opened.map_err(|error| Outcome::Retry { after: None, error: error.to_string() })?;
        }
        given.job.args = args;
        Ok(true)
    }

    /// What the worker leaves of a job, as it is stored: sealed where the job is encrypted.
    pub(super) fn seal(&self, ticket: Ticket, left: Left, plain: Args) -> Result<Args> {
        let Some(opener) = &self.opener else { return Ok(plain) };
        // Of a job that it does not have nothing is stored.
        let Some(job) = self.remote.job(ticket).filter(Opener::is_encrypted) else { return Ok(plain) };
        match left {
            Left::Result => opener.seal_result(&job, &plain),
            Left::Checkpoint => opener.seal_checkpoint(&job, &plain),
        }
    }

    /// Counts a call until what this gives is dropped.
    pub(crate) fn call(self: &Arc<Self>) -> Call {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(Arc::clone(self))
    }

    pub(super) fn is_calling(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    pub(super) fn tell(&self) {
        self.remote.told();
        self.told.notify_one();
    }

    /// Whether nothing was heard of it for so long that the store has ended it.
    pub(super) fn is_forgotten(&self) -> bool {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_calling() && seen.elapsed() > self.remote.spec().lease + REMEMBERED
    }
}

/// What a worker leaves of a job.
#[derive(Clone, Copy)]
pub(super) enum Left {
    Result,
    Checkpoint,
}

/// A call of a worker that is under way.
pub(crate) struct Call(Arc<Member>);

impl Drop for Call {
    fn drop(&mut self) {
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
