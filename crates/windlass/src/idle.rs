use crate::Client;
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;
use windlass_core::{Coming, Result};
use windlass_runtime::EngineHandle;

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// And between two looks at what is coming, which cost more.
const LOOK_AHEAD_EVERY: Duration = Duration::from_secs(1);
/// What a worker that ended holds is taken back within its lease and so long, unless something keeps it from that.
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(5);

/// What a worker takes its jobs from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) queues: Vec<String>,
    /// Empty: any.
    pub(crate) kinds: Vec<String>,
}

impl Source {
    /// Waits until nothing is available and nothing is in hand, no key waits for its rate, and no worker holds jobs whose lease is over: this one takes
    /// those back when it has been in touch for as long as such a lease. Workers that each end before would leave them for ever.
    pub(crate) async fn until_idle(&self, worker: &EngineHandle) -> Result<()> {
        let (mut ahead, mut seen_empty_at) = (Ahead::default(), None);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let stats = worker.stats();
            let in_hand = worker.has_open_claims() || stats.running + stats.ready + stats.unsettled > 0;
            let empty = !in_hand && self.is_empty().await?;
            let before = std::mem::replace(&mut seen_empty_at, empty.then_some(stats.claimed));
            if !empty {
                continue;
            }
            if ahead.nothing_at != Some(stats.claimed) {
                // Both looks come after this: what was coming may have become available since the last one.
                if self.nothing_comes(&mut ahead, stats.claimed).await? {
                    (ahead.nothing_at, seen_empty_at) = (Some(stats.claimed), None);
                }
            } else if before == seen_empty_at {
                // Twice in a row: a claim may begin between a look at the worker and the one at the store.
                return Ok(());
            }
        }
    }

    /// An unreachable store is not empty: the worker outlives outages, so this does too.
    async fn is_empty(&self) -> Result<bool> {
        match self.client.store().any_available(&self.queues, &self.kinds).await {
            Ok(any) => Ok(!any),
            Err(error) if error.is_connection_loss() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether nothing becomes available by itself that is worth waiting for; no, until it is time to look again.
    async fn nothing_comes(&self, ahead: &mut Ahead, claimed: u64) -> Result<bool> {
        if ahead.looked_at.is_some_and(|at| at.elapsed() < LOOK_AHEAD_EVERY) {
            return Ok(false);
        }
        let coming = match self.client.coming(&self.queues).await {
            Err(error) if error.is_connection_loss() => return Ok(false),
            coming => coming?,
        };
        ahead.looked_at = Some(Instant::now());
        Ok(coming.key_due.is_none() && !ahead.is_taken_back(&coming, claimed))
    }
}

/// What is known of what becomes available by itself.
#[derive(Debug, Default)]
struct Ahead {
    looked_at: Option<Instant>,
    /// Nothing does: found when the worker had claimed so many jobs.
    nothing_at: Option<u64>,
    /// What is held by workers that ended, when the worker had claimed so many jobs, and since when that is so.
    held: Option<(u64, u64, Instant)>,
}

impl Ahead {
    /// Whether workers hold jobs whose lease is over, and these may still be taken back. Something may keep them for ever, as a prepared transaction does that completes one of
    /// them.
    fn is_taken_back(&mut self, coming: &Coming, claimed: u64) -> bool {
        if coming.held == 0 {
            self.held = None;
            return false;
        }
        let now = Instant::now();
        let same = self.held.filter(|(held, then, _)| (*held, *then) == (coming.held, claimed));
        let (.., since) = *self.held.insert(same.unwrap_or((coming.held, claimed, now)));
        let waits = now - since <= coming.lease.saturating_add(TAKEN_BACK_WITHIN);
        if !waits {
            let jobs = coming.held;
            warn!(
                jobs,
                "workers that ended still hold jobs, which something such as a prepared transaction keeps from being taken back; they are not waited for"
            );
        }
        waits
    }
}
