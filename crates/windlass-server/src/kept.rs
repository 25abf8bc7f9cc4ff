//! A look at the store for everybody who asks meanwhile, and no more often than it costs.

use crate::live::{self, Cost};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};

/// What takes less is looked at anew each time.
const CHEAP: Duration = Duration::from_millis(50);
/// For so long it is known what a look cost.
const REMEMBERED: Duration = Duration::from_secs(120);

/// What one look found. Who asks while another looks waits for that, and then shares the next look with all that wait.
pub(crate) struct Kept<T>(Mutex<(Option<Known<T>>, Cost)>);

struct Known<T> {
    found: Arc<T>,
    began: Instant,
    ended: Instant,
    until: Instant,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// What is known, or else what `look` finds. That began after the call, or is kept because it was dear.
    pub(crate) async fn or_look<E>(&self, look: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        self.or(look, |known| known.began).await
    }

    /// The same of what is some seconds old anyway: who asks while another looks shares that look.
    pub(crate) async fn or_join<E>(&self, look: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        self.or(look, |known| known.ended).await
    }

    async fn or<E>(
        &self,
        look: impl Future<Output = Result<T, E>>,
        is_of: fn(&Known<T>) -> Instant,
    ) -> Result<Arc<T>, E> {
        let asked = Instant::now();
        let (known, cost) = &mut *self.0.lock().await;
        if let Some(known) =
            known.as_ref().filter(|known| is_of(known) >= asked || Instant::now() < known.until)
        {
            return Ok(Arc::clone(&known.found));
        }
        let began = Instant::now();
        let found = Arc::new(look.await?);
        let ended = Instant::now();
        let until = ended + kept(cost.after(ended - began));
        *known = Some(Known { found: Arc::clone(&found), began, ended, until });
        Ok(found)
    }

    /// Whether nobody has asked for long.
    pub(crate) fn is_idle(&self) -> bool {
        let Ok(held) = self.0.try_lock() else { return false };
        held.0.as_ref().is_none_or(|known| known.until.elapsed() > REMEMBERED)
    }
}

/// For how long is kept what took so long: as a topic is left alone after a look.
fn kept(cost: Duration) -> Duration {
    if cost < CHEAP { Duration::ZERO } else { live::rest(cost) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU32, Ordering::Relaxed},
    };

    #[test]
    fn what_is_dear_is_kept() {
        let of = |millis| kept(Duration::from_millis(millis)).as_millis();
        assert_eq!([of(0), of(49), of(50), of(1_200), of(10_000)], [0, 0, 1_000, 24_000, 60_000]);
    }

    /// Asks `times` for what takes so long to find, once and then all others within that time. How many looks that takes.
    async fn looks(kept: &Arc<Kept<u32>>, times: usize, millis: u64) -> u32 {
        let count = Arc::new(AtomicU32::new(0));
        let ask = |n: usize| {
            let (kept, count) = (Arc::clone(kept), Arc::clone(&count));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(n.min(1) as u64)).await;
                let look = async {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    Ok::<_, Infallible>(count.fetch_add(1, Relaxed))
                };
                kept.or_look(look).await.unwrap_or_else(|never| match never {});
            })
        };
        for asked in (0..times).map(ask).collect::<Vec<_>>() {
            asked.await.unwrap();
        }
        count.load(Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_share_a_look() {
        let kept = Arc::new(Kept::default());
        assert_eq!(
            looks(&kept, 20, 10).await,
            2,
            "one that was under way, and one for all who came meanwhile"
        );
        assert_eq!(looks(&kept, 1, 10).await, 1, "what is cheap is looked at anew");
        assert_eq!(looks(&kept, 1, 100).await, 1);
        assert_eq!(looks(&kept, 1, 100).await, 1, "now it is known to be dear");
        assert_eq!(looks(&kept, 20, 100).await, 0);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(looks(&kept, 1, 100).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_idle_when_nobody_asks() {
        let kept = Arc::new(Kept::default());
        looks(&kept, 1, 10).await;
        assert!(!kept.is_idle());
        tokio::time::advance(REMEMBERED * 2).await;
        assert!(kept.is_idle());
    }
}
