//! Which bodies were enqueued under their `Idempotency-Key`. The store knows a key and the ids of its jobs, and answers with these whatever the jobs of a
//! repetition are: kept there, a hash would be a column of every key, for all who enqueue. Here it costs a hash of the body.

use crate::extract::Body;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many are known, of 10 MB or so; beyond, the oldest is forgotten.
const MOST: usize = 100_000;

/// A hash of 128 bits: nobody gains by two that are the same.
type Hash = [u8; 16];

/// What this process enqueued under keys.
#[derive(Default)]
pub(crate) struct Enqueued(Mutex<State>);

#[derive(Default)]
struct State {
    bodies: HashMap<Hash, Hash>,
    /// The keys, the oldest first.
    order: VecDeque<Hash>,
    /// Of calls that the store has yet to answer, by their keys.
    under_way: HashMap<Hash, Vec<Hash>>,
}

/// A call that enqueues under a key, until it is dropped.
pub(crate) struct UnderWay<'a> {
    enqueued: &'a Enqueued,
    key: Hash,
    body: Hash,
}

impl Enqueued {
    /// The jobs of this body are about to be stored under this key.
    pub(crate) fn begin(&self, key: &str, body: &Body) -> UnderWay<'_> {
        let (key, body) = (hash(key.as_bytes()), hash(body.bytes()));
        self.lock().under_way.entry(key).or_default().push(body);
        UnderWay { enqueued: self, key, body }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    }

    /// Whether the jobs that are stored under its key are known to be of another body; or have to be, of one whose call is not answered yet.
    pub(crate) fn is_of_another(&self) -> bool {
        let state = self.enqueued.lock();
        if let Some(known) = state.bodies.get(&self.key) {
            return *known != self.body;
        }
        let bodies = state.under_way.get(&self.key).map_or(&[][..], Vec::as_slice);
        let alike = bodies.iter().filter(|body| **body == self.body).count();
        bodies.len() > alike && alike == 1
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.enqueued.lock();
        let Some(bodies) = state.under_way.get_mut(&self.key) else { return };
        bodies.iter().position(|body| *body == self.body).map(|at| bodies.swap_remove(at));
        if bodies.is_empty() {
            state.under_way.remove(&self.key);
        }
    }
}

fn hash(bytes: &[u8]) -> Hash {
    let mut short = Hash::default();
    short.copy_from_slice(&Sha256::digest(bytes)[..16]);
    short
}
