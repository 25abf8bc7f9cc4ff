//! Group commit of single enqueues. While a statement is under way to the server, calls that come meanwhile wait,
//! and their jobs go with the next one: one statement, one commit, one flush of the log for all. Each call still
//! returns when its own job is committed, and an idle store sends at once.
//!
//! Measured (2 cores, fsync on, in turns with one statement for each call): 10 tasks 21k to 39k jobs/s and the
//! average call 0.47 to 0.26 ms; 50 tasks 22k to 110k and 2.2 to 0.44 ms; one task the same.

use crate::{database::Database, lock::lock};
use futures_util::{StreamExt, stream};
use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use windlass_core::{Error, ErrorKind, Result};

/// How many statements are under way at once. With 2 or more each carries fewer jobs: 10 tasks reach 26k jobs/s.
const MOST_UNDER_WAY: usize = 1;
/// When so many calls wait, there is one more: it is worth its flush, and the server has something to do while the other waits for the disk. 200 tasks
/// 160k and 205k jobs/s, 50 tasks 99k and 112k; 30 tasks 70k and 65k, and fewer do not come to it.
/// The packages for Python and TypeScript send halves of at least as many (`connection.py`, `calls.ts`).
const MANY: usize = 24;
/// The most jobs of one statement, and the most bytes of args unless one job has more.
const MOST_JOBS: usize = 1_000;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// How long a call waits for the statements under way before one more may begin: a statement that hangs on a dead
/// connection does not hold up all others.
const PATIENCE: Duration = Duration::from_millis(50);

/// A call that enqueues one job and may go with others.
pub(crate) trait Single: Clone + Send + Sync + 'static {
    /// What the caller is told.
    type Stored: Send + 'static;
    /// What a call has to know of those that it is to go with.
    type Company: Default + Send;

    /// How much the job adds to a statement.
    fn bytes(&self) -> usize;

    /// Whether it can go with these; else with the next statement.
    fn joins(&self, company: &mut Self::Company) -> bool;

    /// Stores the job by itself, however long that takes.
    fn alone(&self, db: &Database) -> impl Future<Output = Result<Self::Stored>> + Send;

    /// Stores the job by itself unless it has to wait for somebody: `None`, and nothing happened.
    fn quickly(&self, db: &Database) -> impl Future<Output = Result<Option<Self::Stored>>> + Send {
        async { self.alone(db).await.map(Some) }
    }

    /// Stores the jobs of several calls in one statement, or none of them, and waits for nobody. A call may still be refused by
    /// itself.
    fn together(
        db: &Database,
        calls: &[Self],
    ) -> impl Future<Output = Result<Vec<Result<Self::Stored>>>> + Send;

    /// Whether nothing was stored for a reason that may be that of one call, so that the others are to be sent without it.
    fn is_of_one(error: &Error) -> bool {
        error.is_invalid_input() || error.kind() == ErrorKind::Internal
    }
}

/// The calls of one store that wait for the next statement.
pub(crate) struct GroupCommit<C: Single> {
    db: Database,
    state: Arc<Mutex<State<C>>>,
}

impl<C: Single> Clone for GroupCommit<C> {
    fn clone(&self) -> Self {
        Self { db: self.db.clone(), state: Arc::clone(&self.state) }
    }
}

struct State<C: Single> {
    waiting: VecDeque<Waiting<C>>,
    /// How many statements are under way.
    under_way: usize,
    /// The last statement was for several calls. Their callers are about to enqueue again, and those jobs should
    /// go together, too.
    last_was_shared: bool,
}

struct Waiting<C: Single> {
    call: C,
    reply: Reply<C>,
}

type Reply<C> = oneshot::Sender<Result<<C as Single>::Stored>>;

/// A statement under way. When it ends, also by being dropped, the next begins for the calls that wait.
struct UnderWay<C: Single> {
    group: GroupCommit<C>,
    /// Whether its task began. One that is dropped before was refused by a runtime that is shutting down.
    began: bool,
    /// Whether it goes beside another because many wait. So does the next one only if they still do.
    beside: bool,
}

impl<C: Single> Drop for UnderWay<C> {
    fn drop(&mut self) {
        let mut state = lock(&self.group.state);
        let goes_on = !self.beside || state.waiting.len() >= MANY;
        let most = MOST_UNDER_WAY.max(state.under_way - usize::from(!goes_on));
        state.under_way -= 1;
        if !self.began {
            // The runtime is shutting down.
            let unsent = std::mem::take(&mut state.waiting);
            drop(state);
            for waiting in unsent {
                let _ = waiting.reply.send(Err(not_sent()));
            }
        } else if Handle::try_current().is_ok() {
            drop(state);
            self.group.begin_shared(most, self.beside);
        } // else a caller was dropped outside any runtime: who waits begins a statement when its patience ends
    }
}

impl<C: Single> GroupCommit<C> {
    pub(crate) fn new(db: Database) -> Self {
        let state = State { waiting: VecDeque::new(), under_way: 0, last_was_shared: false };
        Self { db, state: Arc::new(Mutex::new(state)) }
    }

    /// Stores one job.
    pub(crate) async fn enqueue(&self, call: &C) -> Result<C::Stored> {
        if let Some(under_way) = self.begin_alone() {
            if let Some(stored) = call.quickly(&self.db).await? {
                return Ok(stored);
            }
            drop(under_way);
            return call.alone(&self.db).await;
        }
        let (reply, mut answer) = oneshot::channel();
        let many = self.wait(call, reply) >= MANY;
        loop {
            // The statements under way may have ended before this call was added.
            self.begin_shared(MOST_UNDER_WAY + usize::from(many), many);
            match timeout(PATIENCE, &mut answer).await {
                Ok(Ok(stored)) => return stored,
                Ok(Err(_)) => return Err(uncertain()),
                Err(_) => self.begin_shared(self.db.pools.clients(), false),
            }
        }
    }

    /// Adds a call to those that wait. How many these are.
    fn wait(&self, call: &C, reply: Reply<C>) -> usize {
        let waiting = &mut lock(&self.state).waiting;
        waiting.push_back(Waiting { call: call.clone(), reply });
        waiting.len()
    }

    /// Begins a statement for the caller's own job alone, if nobody waits and one more may be under way.
    fn begin_alone(&self) -> Option<UnderWay<C>> {
        let mut state = lock(&self.state);
        let alone = state.waiting.is_empty() && state.under_way < MOST_UNDER_WAY && !state.last_was_shared;
        // Behind a transaction-mode pooler each transaction has to ask for its lanes.
        if !alone && !self.db.is_pooled_by_transaction() {
            return None;
        }
        state.under_way += 1;
        Some(UnderWay { group: self.clone(), began: true, beside: false })
    }

    /// Begins one more statement for the calls that wait, if fewer than `most` are under way. `many`: because so many wait.
    fn begin_shared(&self, most: usize, many: bool) {
        let mut state = lock(&self.state);
        if !state.waiting.is_empty() && state.under_way < most {
            let beside = many && state.under_way >= MOST_UNDER_WAY;
            state.under_way += 1;
            // Not under the lock: a runtime that is shutting down drops the task at once, and its drop locks.
            drop(state);
            tokio::spawn(UnderWay { group: self.clone(), began: false, beside }.send());
        }
    }
}

impl<C: Single> UnderWay<C> {
    /// Stores the jobs of the calls that wait, as many as may go together, and answers each call.
    async fn send(mut self) {
        self.began = true;
        // Callers that were just told that their job is stored run first: they may enqueue the next one.
        tokio::task::yield_now().await;
        let (calls, replies) = self.take_waiting();
        let db = self.group.db.clone();
        let stored = match &*calls {
            [] => return,
            [call] => call.quickly(&db).await.map(|stored| stored.map(|stored| vec![Ok(stored)])),
            calls => match C::together(&db, calls).await {
                Err(error) if C::is_of_one(&error) => Ok(None),
                stored => stored.map(Some),
            },
        };
        // What its caller is told may not arrive: it may have gone meanwhile. The job is stored all the same.
        match stored {
            Ok(Some(stored)) => {
                for (reply, stored) in replies.into_iter().zip(stored) {
                    let _ = reply.send(stored);
                }
            }
            Ok(None) => {
                // One of them may have to wait for long; those who come meanwhile go without it.
                drop(self);
                let each = stream::iter(calls.into_iter().zip(replies));
                let send = |(call, reply): (C, Reply<C>)| async {
                    let (call, reply) = (call, reply);
                    let _ = reply.send(call.alone(&db).await);
                };
                each.for_each_concurrent(None, send).await; // who waits has no connection, see by_turns
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
    }

    /// Takes the calls for this statement. Leaves out those whose caller gave up waiting: their jobs are not sent.
    fn take_waiting(&self) -> (Vec<C>, Vec<Reply<C>>) {
        let mut state = lock(&self.group.state);
        state.last_was_shared = state.waiting.len() > 1;
        let (mut calls, mut replies, mut stay) = (Vec::new(), Vec::new(), VecDeque::new());
        let (mut bytes, mut company) = (0, C::Company::default());
        while let Some(waiting) = state.waiting.pop_front() {
            if waiting.reply.is_closed() {
                continue;
            }
            bytes += waiting.call.bytes();
            if !calls.is_empty() && (calls.len() == MOST_JOBS || bytes > MOST_BYTES) {
                stay.push_back(waiting);
                break;
            }
            if waiting.call.joins(&mut company) {
                calls.push(waiting.call);
                replies.push(waiting.reply);
            } else {
                stay.push_back(waiting);
            }
        }
        stay.append(&mut state.waiting);
        state.waiting = stay;
        (calls, replies)
    }
}

fn not_sent() -> Error {
    Error::new(ErrorKind::Unavailable, "enqueue: the runtime ended before the job was sent")
}

/// The statement that had the call went, with the runtime of another caller, before there was an answer.
fn uncertain() -> Error {
    Error::new(
        ErrorKind::Ambiguous,
        "enqueue: the runtime ended while the job was on its way; it may be stored",
    )
}
