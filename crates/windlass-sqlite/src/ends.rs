//! Waiting for ends of jobs. Within a process the call that ended some tells; other processes' commits are noticed by
//! polling `PRAGMA data_version`.

use crate::wakeup::{POLL_FIRST, POLL_LAST, Signal, Watcher};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use windlass_core::{Ends, Wake};

pub(crate) struct SqliteEnds {
    watcher: Arc<Watcher>,
    ended: watch::Receiver<()>,
    /// Keeps the process-wide entry alive.
    _signal: Arc<Signal>,
    /// The data version when it was last looked at.
    seen: Option<i64>,
}

impl SqliteEnds {
    pub(crate) fn new(watcher: Arc<Watcher>, signal: Arc<Signal>) -> Self {
        let ended = signal.ended.subscribe();
        Self { watcher, ended, _signal: signal, seen: None }
    }
}

#[async_trait]
impl Ends for SqliteEnds {
    async fn wait(&mut self, timeout: Duration) -> Wake {
        let end = Instant::now() + timeout;
        let mut pause = POLL_FIRST;
        loop {
            let next = end.min(Instant::now() + pause);
            match timeout_at(next, self.ended.changed()).await {
                Ok(Ok(())) => return Wake::Hint,
                _ if Instant::now() >= end => return Wake::Timeout,
                _ => {}
            }
            let version = self.watcher.data_version();
            if version.is_some() && std::mem::replace(&mut self.seen, version) != version {
                return Wake::Hint;
            }
            pause = (pause * 2).min(POLL_LAST);
        }
    }
}
