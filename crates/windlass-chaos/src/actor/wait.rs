use super::Order;
use crate::{
    bug,
    history::{Recorder, What},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;
use windlass::{Client, JobId};

/// How long somebody waits for a job.
const LONGEST: Duration = Duration::from_secs(25);
/// Before a wait that failed begins anew.
const AGAIN: Duration = Duration::from_millis(20);

/// Those who wait for the ends of jobs, each for one, and note what they are told.
#[derive(Clone)]
pub(super) struct Waits {
    client: Client,
    recorder: Arc<Recorder>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Waits {
    pub(super) fn new(order: &Order, client: &Client, recorder: &Arc<Recorder>) -> Self {
        let store = match order.bug {
            Some(bug) => bug::wrap(bug, Arc::clone(client.store()), order.seed),
            None => Arc::clone(client.store()),
        };
        Self { client: Client::from_store(store), recorder: Arc::clone(recorder), tasks: Arc::default() }
    }

    pub(super) fn begin(&self, id: JobId) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(wait(self.client.clone(), Arc::clone(&self.recorder), id));
    }

    /// Until each of them knows, or has given up.
    pub(super) async fn end(self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.join_all().await;
    }
}

async fn wait(client: Client, recorder: Arc<Recorder>, id: JobId) {
    let told = loop {
        match client.wait(id, LONGEST).await {
            Ok(job) => break job,
            Err(error) if error.is_connection_loss() || error.is_retryable() => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                tracing::error!(%error, %id, "nobody knows how it ended");
                break None;
            }
        }
    };
    recorder.note(What::Waited { id: id.0, state: told.map(|job| job.state) });
}
