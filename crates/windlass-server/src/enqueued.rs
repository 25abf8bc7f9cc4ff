//! Which bodies were enqueued under their `Idempotency-Key`. The store knows a key and the ids of its jobs, and answers with these whatever the jobs of a
//! repetition are: kept there, a hash would be a column of every key, for all who enqueue. Here it costs a hash of the body.

use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// How many are known, of 10 MB or so; beyond, the oldest is forgotten.
const MOST: usize = 100_000;

/// A hash of 128 bits: nobody gains by two that are the same.
type Hash = [u8; 16];

/// What this process enqueued under keys.
#[derive(Default)]
pub(crate) struct Enqueued {
    state: Mutex<State>,
    /// A call was answered by the store.
    answered: Notify,
}

#[derive(Default)]
struct State {
    bodies: HashMap<Hash, Hash>,
    /// The keys, the oldest first.
    order: VecDeque<Hash>,
    /// Of calls that the store has yet to answer, by their keys: their numbers and bodies.
    under_way: HashMap<Hash, Vec<(u64, Hash)>>,
    last: u64,
}

/// A call that enqueues under a key, until it is dropped.
pub(crate) struct UnderWay<'a> {
    enqueued: &'a Enqueued,
    number: u64,
    key: Hash,
    body: Hash,
}

impl Enqueued {
    /// The jobs of this body are about to be stored under this key.
    pub(crate) fn begin(&self, key: &str, body: &[u8]) -> UnderWay<'_> {
        let (key, body) = (hash(key.as_bytes()), hash(body));
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.under_way.entry(key).or_default().push((number, body));
        UnderWay { enqueued: self, number, key, body }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay<'_> {
    /// They were stored.
    pub(crate) fn note(&self) {
        let mut state = self.enqueued.lock();
        if state.bodies.insert(self.key, self.body).is_none() {
            state.order.push_back(self.key);
        }
        if state.order.len() > MOST
            && let Some(oldest) = state.order.pop_front()
        {
            state.bodies.remove(&oldest);
        }
        drop(state);
        self.answered();
    }

    /// Whether the jobs that were there under its key are known to be of another body. Those of a call that the store answers just now are known
    /// when this was noted.
    pub(crate) async fn is_of_another(&self) -> bool {
        // Two that were answered do not wait for each other.
        self.answered();
        let others: Vec<u64> = self.others(&self.enqueued.lock()).collect();
        loop {
            let mut answered = pin!(self.enqueued.answered.notified());
            answered.as_mut().enable();
            {
                let state = self.enqueued.lock();
                if let Some(known) = state.bodies.get(&self.key) {
                    return *known != self.body;
                }
                if !self.others(&state).any(|other| others.contains(&other)) {
                    return false; // stored by another process, or long ago
                }
            }
            answered.await;
        }
    }

    /// The calls that may have stored another body.
    fn others<'a>(&'a self, state: &'a State) -> impl Iterator<Item = u64> + 'a {
        let calls = state.under_way.get(&self.key).map_or(&[][..], Vec::as_slice);
        calls.iter().filter(|(_, body)| *body != self.body).map(|(number, _)| *number)
    }

    fn answered(&self) {
        let mut state = self.enqueued.lock();
        if let Some(calls) = state.under_way.get_mut(&self.key) {
            calls.retain(|(number, _)| *number != self.number);
            if calls.is_empty() {
                state.under_way.remove(&self.key);
            }
        }
        drop(state);
        self.enqueued.answered.notify_waiters();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.answered();
    }
}

fn hash(bytes: &[u8]) -> Hash {
    let mut short = Hash::default();
    short.copy_from_slice(&Sha256::digest(bytes)[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::join};

    #[tokio::test]
    async fn of_several_calls_at_once_each_is_told_whose_jobs_are_there() {
        let enqueued = Enqueued::default();
        let [one, again, other] = ["1", "1", "2"].map(|body| enqueued.begin("k", body.as_bytes()));
        let mut told = pin!(join(one.is_of_another(), again.is_of_another()));
        assert!((&mut told).now_or_never().is_none(), "the other may have stored its jobs");
        other.note();
        assert_eq!(told.await, (true, true));
        assert!(!enqueued.begin("k", b"2").is_of_another().await);
    }

    #[tokio::test]
    async fn what_nobody_here_stored_is_nobodys() {
        let enqueued = Enqueued::default();
        let [one, other, failed] = ["1", "2", "3"].map(|body| enqueued.begin("k", body.as_bytes()));
        let mut told = pin!(join(one.is_of_another(), other.is_of_another()));
        assert!((&mut told).now_or_never().is_none());
        drop(failed);
        assert_eq!(told.await, (false, false));
        assert!(!enqueued.begin("k", b"1").is_of_another().await);
        assert!(enqueued.lock().under_way.is_empty());
    }
}
