//! Which bodies were enqueued under their `Idempotency-Key`. The store knows a key and the ids of its jobs, and answers with these whatever the jobs of a
//! repetition are: kept there, a hash would be a column of every key, for all who enqueue. Here it costs a hash of the body.

use crate::extract::Body;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
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
}

impl Enqueued {
    /// The jobs of this body were stored under this key.
    pub(crate) fn note(&self, key: &str, body: &Body) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(key.as_bytes());
        if state.bodies.insert(key, hash(body.bytes())).is_none() {
            state.order.push_back(key);
        }
        if state.order.len() > MOST
            && let Some(oldest) = state.order.pop_front()
        {
            state.bodies.remove(&oldest);
        }
    }

    /// Whether the jobs that are stored under this key are known to be of another body.
    pub(crate) fn is_of_another(&self, key: &str, body: &Body) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.bodies.get(&hash(key.as_bytes())).is_some_and(|known| *known != hash(body.bytes()))
    }
}

fn hash(bytes: &[u8]) -> Hash {
    let mut short = Hash::default();
    short.copy_from_slice(&Sha256::digest(bytes)[..16]);
    short
}
