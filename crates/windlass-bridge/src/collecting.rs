use crate::{Desk, Engine, Exchange, Failure, Told};
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use windlass::{Outcome, lend::Room};

/// So many outcomes wait at most.
const MOST: usize = 64;
/// And no longer than about so long. Handlers that take as long are handed in one by one.
const LONGEST: Duration = Duration::from_millis(1);

/// A [`Desk`] of a thread that runs one job after the other. While the next one is there already, what became of short ones is collected and handed
/// in together: handing in each by itself wakes the engine for each, which is several times the cost of all else. Nothing waits for the thread: what it
/// leaves behind when its next job takes long is handed in by the engine.
#[derive(Debug)]
pub struct CollectingDesk {
    shared: Arc<Shared>,
    engine: Engine,
}

#[derive(Debug)]
struct Shared {
    desk: Desk,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    outcomes: Vec<(u64, Outcome)>,
    /// When the last were handed in.
    since: Instant,
    /// Somebody comes and looks after them.
    is_watched: bool,
    /// What was told to who came, for the thread.
    told: Vec<Told>,
    /// And what it was refused.
    refused: u32,
}

impl CollectingDesk {
    pub(crate) fn new(desk: Desk, engine: Engine) -> Self {
        let (outcomes, told) = (Vec::new(), Vec::new());
        let kept = Kept { outcomes, since: Instant::now(), is_watched: false, told, refused: 0 };
        Self { shared: Arc::new(Shared { desk, kept: Mutex::new(kept) }), engine }
    }

    /// Hands in a job that is done, by now or soon, and takes one where there is one. Never waits. Where it brings nothing all is handed in, and
    /// the bell rings for what comes.
    pub fn next(&self, done: Option<(u64, Outcome)>) -> Exchange {
        let mut kept = self.shared.kept();
        kept.outcomes.extend(done);
        if !kept.outcomes.is_empty() && kept.may_wait() && (kept.is_watched || self.watch(&mut kept)) {
            let exchange = self.shared.desk.take(Room::jobs(1));
            if !exchange.jobs.is_empty() {
                return kept.with(exchange);
            }
            kept.hear(exchange);
        }
        self.shared.hand_in(&mut kept, 1)
    }

    /// Hands in what is done, and looks what is told.
    pub fn look(&self) -> Exchange {
        self.shared.hand_in(&mut self.shared.kept(), 0)
    }

    /// Has the engine look after what is kept: the thread may not come back for long. Whether it will.
    fn watch(&self, kept: &mut Kept) -> bool {
        let shared = Arc::downgrade(&self.shared);
        let work = async move {
            tokio::time::sleep(LONGEST).await;
            if let Some(shared) = shared.upgrade() {
                shared.come();
            }
            Ok::<_, Failure>(())
        };
        kept.is_watched = self.engine.start(work, |_| ()).is_ok();
        kept.is_watched
    }
}

/// What is done is done, also where its thread ends.
impl Drop for CollectingDesk {
    fn drop(&mut self) {
        if self.engine.check().is_err() {
            return; // a thread that this fork does not have may hold the lock
        }
        let mut kept = self.shared.kept();
        if !kept.outcomes.is_empty() {
            self.shared.hand_in(&mut kept, 0);
        }
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_in(&self, kept: &mut Kept, room: usize) -> Exchange {
        kept.since = Instant::now();
        let exchange = self.desk.exchange(kept.outcomes.drain(..), Room::jobs(room));
        kept.with(exchange)
    }

    fn come(&self) {
        let mut kept = self.kept();
        kept.is_watched = false;
        if !kept.outcomes.is_empty() {
            let exchange = self.hand_in(&mut kept, 0);
            kept.hear(exchange);
        }
    }
}

impl Kept {
    fn may_wait(&self) -> bool {
        self.outcomes.len() < MOST && self.since.elapsed() < LONGEST
    }

    /// Keeps what the thread is to be told.
    fn hear(&mut self, exchange: Exchange) {
        self.told.extend(exchange.told);
        self.refused += exchange.refused;
    }

    /// The same exchange with what was heard before it.
    fn with(&mut self, mut exchange: Exchange) -> Exchange {
        if !self.told.is_empty() {
            let mut told = mem::take(&mut self.told);
            told.append(&mut exchange.told);
            exchange.told = told;
        }
        exchange.refused += mem::take(&mut self.refused);
        exchange
    }
}
