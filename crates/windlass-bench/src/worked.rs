//! Jobs that are there, worked to the end: each exactly once.

use crate::{
    meter::{Meter, Reading},
    store::connect_each,
    worker_settings::WorkerSettings,
    workers::Workers,
};
use std::time::Duration;
use windlass_cli::{
    failure::Outcome,
    measure::{Expected, MeasuredStore},
    progress::Progress,
};

/// What was seen of it.
pub(crate) struct Worked {
    /// From the start of the workers until every job was handled and its settlement confirmed.
    pub(crate) took: Duration,
    /// How many jobs were handled in each second.
    pub(crate) per_second: Vec<u64>,
    /// What it had cost by then.
    pub(crate) end: Reading,
}

/// Works what was enqueued, with so many workers that have connections of their own. Fails unless each job was handled exactly
/// once.
pub(crate) async fn work(
    store: &MeasuredStore,
    (workers, settings): (u32, WorkerSettings),
    expected: Expected,
    meter: &Meter,
    progress: &mut Progress,
) -> Outcome<Worked> {
    let clients = connect_each(&store.url, workers as usize).await?;
    let (workers, _starts) = Workers::start(&clients, settings, expected).await?;
    let worked = finish(workers, meter, progress).await?;
    for client in clients {
        client.close().await;
    }
    Ok(worked)
}

/// The same with workers that run.
pub(crate) async fn finish(mut workers: Workers, meter: &Meter, progress: &mut Progress) -> Outcome<Worked> {
    let took = workers.finish(progress).await?;
    let end = meter.read().await;
    workers.verify()?;
    let per_second = workers.per_second();
    workers.stop().await;
    Ok(Worked { took, per_second, end })
}
