//! Tells the store what handlers say of their jobs: what is new of all running jobs, at most twice a second, and at
//! once when somebody waits for it.

use crate::{
    core::Core, epoch::Epoch, job_reporter::JobReporter, outage::Outage, outbox::Destination,
    refused::is_defect,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;
use windlass_core::{Args, Error, ErrorKind, JobReport, ReportRequest, Reported};

/// What nobody waits for is sent this long after what was sent before.
const INTERVAL: Duration = Duration::from_millis(500);
/// The most jobs of one call.
const MOST_JOBS: usize = 1_000;
/// A call takes no further job when it has so many bytes.
const MOST_BYTES: usize = 1 << 20;

/// Sends until it is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let Destination::Store { listed, urgent, .. } = &*core.reports else { return };
    let mut outage = Outage::new("report", core.config.random);
    let (mut sent_at, mut warned) = (None, false);
    loop {
        if core.epochs().iter().all(|epoch| epoch.outbox().is_empty()) {
            listed.notified().await;
            continue;
        }
        if let Some(sent_at) = sent_at {
            tokio::select! {
                biased;
                () = urgent.notified() => {}
                () = sleep_until(sent_at + INTERVAL) => {}
            }
        }
        sent_at = Some(Instant::now());
        for epoch in core.epochs() {
            let mut jobs = epoch.outbox().take().into_iter().peekable();
            while jobs.peek().is_some() {
                send(&core, &epoch, Batch::of(&mut jobs), &mut outage, &mut warned).await;
            }
        }
    }
}

/// What goes to the store in one call.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Arc<JobReporter>>,
    pub(crate) reports: Vec<JobReport>,
}

impl Batch {
    pub(crate) fn of(jobs: &mut impl Iterator<Item = Arc<JobReporter>>) -> Self {
        let (mut batch, mut bytes) = (Self::default(), 0);
        while bytes < MOST_BYTES && batch.jobs.len() < MOST_JOBS {
            let Some(job) = jobs.next() else { break };
            let Some(report) = job.take() else { continue };
            bytes += report.checkpoint.as_ref().map_or(0, Args::len);
            bytes += report.log.iter().map(|entry| entry.text.len()).sum::<usize>();
            batch.jobs.push(job);
            batch.reports.push(report);
        }
        batch
    }
}

/// Tries until the store accepted or refused it, or the epoch is lost. Repeating a call is harmless.
async fn send(core: &Arc<Core>, epoch: &Arc<Epoch>, batch: Batch, outage: &mut Outage, warned: &mut bool) {
    let Batch { jobs, reports } = batch;
    let request = ReportRequest { worker: epoch.worker(), reports };
    while !request.reports.is_empty() && !epoch.is_lost() {
        match core.store.report(&request).await {
            Ok(replies) => {
                outage.over();
                *warned = false;
                for (job, reply) in jobs.iter().zip(replies) {
                    match reply {
                        Reported::Accepted => job.done(|| Ok(())),
                        Reported::Refused => job.refuse(),
                    }
                }
                return;
            }
            Err(error) if error.is_lease_lost() => core.lose(epoch),
            Err(error) if is_for_good(&error) => {
                if !std::mem::replace(warned, true) {
                    warn!(%error, jobs = jobs.len(), "the store does not take what handlers say of their jobs; it is dropped");
                }
                jobs.iter().for_each(|job| job.done(|| Err(Error::new(error.kind(), error.to_string()))));
                return;
            }
            Err(error) => sleep(outage.failed(&error)).await,
        }
    }
    jobs.iter().for_each(|job| job.refuse());
}

/// Whether trying again does not help, short of a migration or a grant.
fn is_for_good(error: &Error) -> bool {
    use ErrorKind::{PermissionDenied, SchemaMissing, SchemaTooNew, SchemaTooOld, Unsupported};
    is_defect(error)
        || matches!(
            error.kind(),
            PermissionDenied | SchemaMissing | SchemaTooNew | SchemaTooOld | Unsupported
        )
}
