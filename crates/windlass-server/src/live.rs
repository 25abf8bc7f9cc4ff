//! What changes, told to whoever looks: one poller per topic for all readers, and none for none.

use crate::problem::Problem;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// How often a topic is looked at while somebody does.
const PERIOD: Duration = Duration::from_secs(1);
/// A look takes at most this part of the time, and is never farther from the next than this.
const COST: u32 = 20;
const LONGEST: Duration = Duration::from_secs(60);
/// The most streams at once.
pub(crate) const MOST_READERS: usize = 200;

/// For how long to leave the store alone after what took so long.
pub(crate) fn rest(cost: Duration) -> Duration {
    cost.saturating_mul(COST).min(LONGEST)
}

/// What looks take: the smaller of the last two, so that a first one, which may have to connect, or a stall counts for nothing.
#[derive(Default)]
pub(crate) struct Cost(Duration);

impl Cost {
    /// What they cost, by the last look and the one before.
    pub(crate) fn after(&mut self, look: Duration) -> Duration {
        std::mem::replace(&mut self.0, look).min(look)
    }
}

/// What a topic says last; `None` before the first look.
pub(crate) type Latest = Option<Arc<Frame>>;

/// One event of a stream.
pub(crate) struct Frame {
    pub(crate) event: &'static str,
    pub(crate) data: String,
}

/// The topics that somebody looks at.
pub(crate) struct Live {
    topics: Mutex<HashMap<String, watch::Sender<Latest>>>,
    readers: AtomicUsize,
    stop: CancellationToken,
}

/// Counts a reader until it is dropped.
pub(crate) struct Reader(Arc<Live>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { topics: Mutex::default(), readers: AtomicUsize::new(0), stop }
    }

    /// Fires when the server stops.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    pub(crate) fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// A place for one more reader; `None` when there are too many.
    pub(crate) fn reader(self: &Arc<Self>) -> Option<Reader> {
        let add = |readers| (readers < MOST_READERS).then_some(readers + 1);
        let added = self.readers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Reader(Arc::clone(self)))
    }

    /// Joins those who look at a topic; who is first has it polled.
    pub(crate) fn subscribe<S, F, T>(
        self: &Arc<Self>,
        topic: &str,
        event: &'static str,
        source: S,
    ) -> watch::Receiver<Latest>
    where
        S: Fn() -> F + Send + 'static,
        F: Future<Output = Result<T, Problem>> + Send,
        T: Serialize + Send + Sync,
    {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = topics.get(topic) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        topics.insert(topic.to_owned(), sender.clone());
        let (live, topic) = (Arc::clone(self), topic.to_owned());
        tokio::spawn(async move { live.poll(&topic, &sender, event, source).await });
        receiver
    }

    async fn poll<S, F, T>(&self, topic: &str, sender: &watch::Sender<Latest>, event: &'static str, source: S)
    where
        S: Fn() -> F,
        F: Future<Output = Result<T, Problem>>,
        T: Serialize,
    {
        let (mut last, mut cost) = (Value::Null, Cost::default());
        loop {
            let began = Instant::now();
            let answer = source().await;
            let mut timeless = match &answer {
                Ok(data) => serde_json::to_value(data).unwrap_or_default(),
                Err(problem) => {
                    let mut data = problem.json("");
                    data["topic"] = topic.into();
                    data
                }
            };
            // The time of the look is no change.
            timeless.as_object_mut().map(|fields| fields.remove("at"));
            if timeless != last {
                last = timeless;
                let (event, data) = match answer {
                    // As it is written, which is more than a `Value` keeps.
                    Ok(data) => (event, serde_json::to_string(&data).unwrap_or_default()),
                    Err(problem) => {
                        problem.log("", &format!("live {topic}")); // once for all who look, and while it lasts
                        ("problem", last.to_string())
                    }
                };
                sender.send_replace(Some(Arc::new(Frame { event, data })));
            }
            let pause = rest(cost.after(began.elapsed())).max(PERIOD);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = sender.closed() => {}
                () = self.stop.cancelled() => return,
            }
            // Under the lock that those take who join, so that none joins what ends.
            let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            if sender.receiver_count() == 0 {
                topics.remove(topic);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::iter;

    /// When looks begin, in seconds, where they take so long and then nothing.
    async fn looks(millis: &'static [u64], most: usize) -> Vec<u64> {
        let began = Instant::now();
        let live = Arc::new(Live::new(CancellationToken::new()));
        let left = Mutex::new(millis.iter().copied().chain(iter::repeat(0)));
        let at = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&at);
        let reader = live.subscribe("a", "a", move || {
            seen.lock().unwrap().push(began.elapsed().as_secs());
            let look = left.lock().unwrap().next().unwrap();
            async move {
                tokio::time::sleep(Duration::from_millis(look)).await;
                Ok(json!({}))
            }
        });
        while at.lock().unwrap().len() < most {
            tokio::time::sleep(PERIOD).await;
        }
        drop(reader);
        let at = at.lock().unwrap();
        at[..most].to_vec()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_counts_for_nothing() {
        assert_eq!(looks(&[900, 0, 0, 900, 0], 7).await, [0, 1, 2, 3, 5, 6, 7]);
        assert_eq!(looks(&[800, 900, 900, 9_000, 9_000], 6).await, [0, 1, 18, 37, 64, 133]);
    }
}
