//! The task that looks for the jobs that are waited for.

use super::{PAUSE, Waiting};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use windlass_core::{JobId, Store, Wake};

/// A look at the jobs is followed by a pause so many times as long, however many are waited for.
const REST: u32 = 3;
/// How many jobs one look asks for.
const TOGETHER: usize = 1_000;
/// How long the connection for hints is kept when nobody waits any more.
const KEEP: Duration = Duration::from_secs(10);

/// The task's own. Where it goes otherwise than by its end, as with the runtime that it is of, whoever waits is told, and the next one begins
/// another.
pub(super) struct Looking(pub(super) Option<Waiting>);

impl Drop for Looking {
    fn drop(&mut self) {
        let Some(waiting) = &self.0 else { return };
        let mut state = waiting.lock();
        state.looking = false;
        state.jobs.clear();
    }
}

/// Looks for the jobs that are waited for until nobody waits: for all of them when a hint came, and the longest pause after the last time at the latest; for those that
/// are waited for since a moment ago in between. However many begin to wait, it costs looks at them alone, and puts off none at the others.
pub(super) async fn look(mut looking: Looking, store: Arc<dyn Store>) {
    let Some(waiting) = looking.0.clone() else { return };
    let mut ends = store.ends();
    let (mut all, mut pause, mut next_all) = (true, PAUSE.1, Instant::now());
    loop {
        let (ids, soon) = waiting.due(all);
        let began = Instant::now();
        let is_well = ask(&waiting, &*store, &ids).await;
        sleep((began.elapsed() * REST).min(PAUSE.1)).await;
        if !is_well {
            pause = PAUSE.1;
        }
        if all {
            next_all = Instant::now() + pause;
        }
        let idle = waiting.lock().jobs.is_empty();
        let next = match soon {
            _ if idle => Instant::now() + KEEP,
            // Those that it did not come to are among all.
            Some(soon) if is_well => soon.min(next_all),
            _ => next_all,
        };
        let hint = async {
            let longest = next.saturating_duration_since(Instant::now());
            match &mut ends {
                Some(ends) => ends.wait(longest).await,
                None => {
                    sleep(longest).await;
                    Wake::Timeout
                }
            }
        };
        let wake = tokio::select! {
            biased;
            wake = hint => {
                if idle && waiting.may_end() {
                    looking.0 = None; // another may look by now
                    return;
                }
                wake
            }
            () = waiting.0.more.notified() => Wake::Timeout,
        };
        all = wake == Wake::Hint || Instant::now() >= next_all;
        if all {
            pause = if wake == Wake::Hint { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        }
    }
}

/// Asks for these jobs, and tells whoever waits for them. Whether the store answered.
async fn ask(waiting: &Waiting, store: &dyn Store, ids: &[JobId]) -> bool {
    for some in ids.chunks(TOGETHER) {
        match store.ended(some).await {
            Ok(ended) => waiting.tell(ended),
            // That does not pass by itself: a right that is missing, a schema that is none.
            Err(error) if !error.is_retryable() && !error.is_ambiguous() => waiting.fail(some, &error),
            Err(error) => {
                // Whoever waits has a time limit; the store may be back before.
                tracing::debug!(%error, "cannot look for the jobs that are waited for");
                return false;
            }
        }
    }
    true
}
