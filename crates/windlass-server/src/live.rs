//! What changes, told to whoever looks: one poller per topic for all readers, and none for none.

use crate::problem::Problem;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How often a topic is looked at while somebody does.
const PERIOD: Duration = Duration::from_secs(1);
/// A look takes at most this part of the time, and is never farther from the next than this.
const COST: u32 = 20;
const LONGEST: Duration = Duration::from_secs(60);
/// The most streams at once, and of these those of one actor.
pub(crate) const MOST_READERS: usize = 200;
const MOST_OF_ONE: usize = 100;
/// So many topics are looked at side by side, however many there are: half of the connections to the store stay for requests.
const MOST_LOOKS: usize = 2;

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
    looks: Semaphore,
    /// How many streams each actor reads.
    readers: Mutex<HashMap<String, usize>>,
    stop: CancellationToken,
}

/// Counts a reader until it is dropped.
pub(crate) struct Reader {
    live: Arc<Live>,
    actor: String,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut readers = self.live.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = readers.get_mut(&self.actor) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&self.actor);
            }
        }
    }
}

impl Live {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        let looks = Semaphore::new(MOST_LOOKS);
        Self { topics: Mutex::default(), looks, readers: Mutex::default(), stop }
    }

    /// Fires when the server stops.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    pub(crate) fn readers(&self) -> usize {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// A place for one more stream of an actor; where there are too many, how many there are.
    pub(crate) fn reader(self: &Arc<Self>, actor: &str) -> Result<Reader, usize> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, all) = (readers.get(actor).copied().unwrap_or(0), readers.values().sum::<usize>());
        if own >= MOST_OF_ONE || all >= MOST_READERS {
            return Err(own.max(all));
        }
        readers.insert(actor.to_owned(), own + 1);
        Ok(Reader { live: Arc::clone(self), actor: actor.to_owned() })
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
            // Never closed. What it waits for is no cost of the look.
            let turn = self.looks.acquire().await;
            let began = Instant::now();
            let answer = source().await;
            let took = began.elapsed();
            drop(turn);
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
            let pause = rest(cost.after(took)).max(PERIOD);
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

    /// They took all connections to the store, and requests of others waited.
    #[tokio::test(start_paused = true)]
    async fn of_many_topics_few_are_looked_at_at_once() {
        let live = Arc::new(Live::new(CancellationToken::new()));
        let (looks, most) = (Arc::new(Mutex::new((0, 0))), Arc::new(Mutex::new(0)));
        let readers: Vec<_> = (0..500)
            .map(|topic| {
                let (looks, most) = (Arc::clone(&looks), Arc::clone(&most));
                live.subscribe(&topic.to_string(), "a", move || {
                    let (looks, most) = (Arc::clone(&looks), Arc::clone(&most));
                    async move {
                        let now = {
                            let mut looks = looks.lock().unwrap();
                            *looks = (looks.0 + 1, looks.1 + 1);
                            looks.0
                        };
                        let before = *most.lock().unwrap();
                        *most.lock().unwrap() = now.max(before);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        looks.lock().unwrap().0 -= 1;
                        Ok(json!({}))
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(*most.lock().unwrap(), MOST_LOOKS);
        assert!(readers.iter().all(|reader| reader.borrow().is_some()), "each has its turn");
        assert!(looks.lock().unwrap().1 > 2 * readers.len(), "again and again");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_reads_all_streams() {
        let live = Arc::new(Live::new(CancellationToken::new()));
        let mut readers: Vec<_> = (0..MOST_OF_ONE).map(|_| live.reader("a").unwrap()).collect();
        assert_eq!(live.reader("a").err(), Some(MOST_OF_ONE));
        readers.extend((0..MOST_OF_ONE).map(|_| live.reader("b").unwrap()));
        assert_eq!((live.reader("c").err(), live.readers()), (Some(MOST_READERS), MOST_READERS));
        readers.clear();
        assert_eq!(live.readers(), 0);
        assert!(live.reader("a").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_counts_for_nothing() {
        assert_eq!(looks(&[900, 0, 0, 900, 0], 7).await, [0, 1, 2, 3, 5, 6, 7]);
        assert_eq!(looks(&[800, 900, 900, 9_000, 9_000], 6).await, [0, 1, 18, 37, 64, 133]);
    }
}
