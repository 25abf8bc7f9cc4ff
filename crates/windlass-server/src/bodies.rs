//! How many bytes of bodies are in memory at once, over all requests. Who would send more waits for room, and is told so when that takes long.

use crate::problem::Problem;
use axum::{body::Body, http::StatusCode};
use hyper::body::Body as _;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// In bytes, where nothing else is said: four of the longest bodies, as many as `windlass serve` has connections to store them by.
pub(crate) const MOST: usize = 64 << 20;
/// Shorter ones are as what a connection reads ahead: they wait for nobody.
const SHORT: usize = 16 << 10;
/// So long one waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many bytes a body may have, of which `limit` are read at most: as many, where nobody says its length.
pub(crate) fn most_of(body: &Body, limit: usize) -> usize {
    let said = body.size_hint().upper().and_then(|most| usize::try_from(most).ok());
    said.unwrap_or(limit).min(limit)
}

pub(crate) struct Bodies {
    room: Arc<Semaphore>,
    most: usize,
}

/// What a body takes of it, until it is dropped.
#[derive(Clone)]
pub(crate) struct Room(Arc<OwnedSemaphorePermit>);

impl Bodies {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(most)), most }
    }

    /// Room for a body of so many bytes, before it is read; `None` where it is short. One that is longer than all of the room is read when no other is.
    pub(crate) async fn room(&self, length: usize) -> Result<Option<Room>, Problem> {
        if length <= SHORT {
            return Ok(None);
        }
        let length = u32::try_from(length.min(self.most)).unwrap_or(u32::MAX);
        let room = timeout(PATIENCE, Arc::clone(&self.room).acquire_many_owned(length)).await;
        let room = room.ok().and_then(Result::ok).ok_or_else(|| self.full())?;
        Ok(Some(Room(Arc::new(room))))
    }

    fn full(&self) -> Problem {
        let detail = format!(
            "the bodies of other requests take the {} bytes that this server has for them; nothing was done, send it again later, or less at once",
            self.most
        );
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many", detail).retry_after(5)
    }
}

impl Room {
    /// That of a body of this length: one that could have been longer gives the rest back.
    pub(crate) fn of(mut self, length: usize) -> Self {
        let permit = Arc::get_mut(&mut self.0);
        permit.and_then(|permit| permit.split(permit.num_permits().saturating_sub(length)));
        self
    }
}
