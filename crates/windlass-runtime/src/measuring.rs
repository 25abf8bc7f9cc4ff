use crate::{core::Core, meter::INTERVAL};
use std::sync::Arc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Tells the store every now and then, until it is aborted.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        core.meter.send(&*core.store).await;
    }
}
