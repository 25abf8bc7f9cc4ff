//! The counts of all queues, for what shows all of them: taken once for everybody who asks, and no more often than they cost.

use crate::live;
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};
use windlass::{Client, QueueStats, Result};

/// Counts that take less are taken anew each time.
const CHEAP: Duration = Duration::from_millis(50);

/// All queues, as they were counted at a time.
pub(crate) struct Counted {
    pub(crate) at: Timestamp,
    pub(crate) queues: Vec<QueueStats>,
}

/// Who asks while they are counted waits for that and does not count.
#[derive(Default)]
pub(crate) struct Counts(Mutex<(Option<Known>, live::Cost)>);

struct Known {
    counted: Arc<Counted>,
    until: Instant,
}

impl Counts {
    pub(crate) async fn all(&self, client: &Client) -> Result<Arc<Counted>> {
        let (known, cost) = &mut *self.0.lock().await;
        if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.until) {
            return Ok(Arc::clone(&known.counted));
        }
        let (began, at) = (Instant::now(), Timestamp::now());
        let counted = Arc::new(Counted { at, queues: client.queues().await? });
        let until = Instant::now() + kept(cost.after(began.elapsed()));
        *known = Some(Known { counted: Arc::clone(&counted), until });
        Ok(counted)
    }
}

/// For how long counts are kept that took so long: as a topic is left alone after a look.
fn kept(cost: Duration) -> Duration {
    if cost < CHEAP { Duration::ZERO } else { live::rest(cost) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_counts_are_kept() {
        let of = |millis| kept(Duration::from_millis(millis)).as_millis();
        assert_eq!([of(0), of(49), of(50), of(1_200), of(10_000)], [0, 0, 1_000, 24_000, 60_000]);
    }
}
