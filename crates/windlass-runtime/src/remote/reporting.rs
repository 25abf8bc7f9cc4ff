//! What a worker that runs elsewhere says of its jobs while it has them.

use super::{RemoteWorker, whole};
use crate::{
    job_reporter::{JobReporter, Unsent},
    lend::Ticket,
    outbox::told,
    reporter::Batch,
};
use std::sync::Arc;
use windlass_core::{Args, Error, Progress, ReportRequest, Reported, Result};

/// What it says of one.
#[derive(Clone, Debug)]
pub struct RemoteReport {
    /// Which.
    pub ticket: Ticket,
    /// How far it is; `None`: as before.
    pub progress: Option<Progress>,
    /// Lines for its log. Long ones are cut.
    pub log: Vec<String>,
    /// What the next attempt is given; `None`: as before.
    pub checkpoint: Option<Args>,
}

impl RemoteReport {
    fn say(self, unsent: &mut Unsent) {
        let Self { ticket: _, progress, log, checkpoint } = self;
        unsent.progress = progress.or(unsent.progress.take());
        unsent.checkpoint = checkpoint.or(unsent.checkpoint.take());
        log.iter().for_each(|line| unsent.log(line));
    }
}

impl RemoteWorker {
    /// Keeps what is said: committed on return. One reply for each, in order; refused is what this worker does not have. What is said
    /// during a call goes with the next.
    ///
    /// # Errors
    /// A lost lease, or the store's; what was said is then lost, or stored all the same.
    pub async fn report(self: &Arc<Self>, said: Vec<RemoteReport>) -> Result<Vec<Reported>> {
        let said: Vec<_> = {
            let mut table = self.lock();
            let say = |report: RemoteReport| {
                let (job, reporter) = table.reporter(report.ticket)?;
                let stored = reporter.say(true, |unsent| report.say(unsent)).1?;
                Some((job, reporter, stored))
            };
            said.into_iter().map(say).collect()
        };
        let jobs: Vec<_> = said.iter().flatten().map(|(_, reporter, _)| Arc::clone(reporter)).collect();
        if !jobs.is_empty() {
            let worker = Arc::clone(self);
            whole(tokio::spawn(async move { worker.send(jobs).await })).await?;
        }
        let mut replies = Vec::with_capacity(said.len());
        for said in said {
            let Some((job, _, stored)) = said else {
                replies.push(Reported::Refused);
                continue;
            };
            replies.push(match told(job, stored).await {
                Ok(()) => Reported::Accepted,
                Err(error) if error.is_lease_lost() => Reported::Refused,
                Err(error) => return Err(error),
            });
        }
        Ok(replies)
    }

    async fn send(&self, jobs: Vec<Arc<JobReporter>>) -> Result<()> {
        // An error would be that it was closed.
        let _turn = self.reporting.acquire().await;
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            let Batch { jobs: of, reports } = Batch::of(&mut jobs);
            if reports.is_empty() {
                continue;
            }
            let request = ReportRequest { worker: self.worker, reports };
            match self.store.report(&request).await {
                Ok(replies) => of.iter().zip(replies).for_each(|(job, reply)| match reply {
                    Reported::Accepted => job.done(|| Ok(())),
                    Reported::Refused => job.refuse(),
                }),
                Err(error) => {
                    let again = || Error::new(error.kind(), error.to_string());
                    of.iter().for_each(|job| job.done(|| Err(again())));
                    return self.fenced(Err(error));
                }
            }
        }
        Ok(())
    }
}
