//! Jobs that an executor lends to foreign code, and for which it does not wait.

use super::{
    activate,
    running::{said_last, stored_last},
};
use crate::{
    Context, Settling,
    attempt::drive,
    caught,
    conclusion::Ended,
    core::Core,
    disposition::Settlement,
    ending::Ending,
    epoch::{ClaimScope, Epoch},
    expiry::Expiry,
    last_handler::Found,
    lend::{Lender, ToLend},
    popped::{Popped, is_suspect},
    queue_runner::QueueRunner,
    sync::spawn,
    turn::Done,
    unattended::{Home, Unattended},
};
use std::{future::Future, pin::Pin, sync::Arc};
use tracing::Level;
use windlass_core::{ClaimedJob, Outcome};

/// So many jobs are offered at once at most.
const MOST: usize = 64;

/// What an executor has taken, to be offered together: one lock and one bell for all.
#[derive(Default)]
pub(super) struct Lot {
    jobs: Vec<ToLend>,
    /// Where these jobs come back to.
    origin: Option<Arc<Origin>>,
    /// The epoch of the last of them: the lender watches it.
    epoch: Option<Arc<Epoch>>,
}

impl Lot {
    /// Takes a job that may be lent.
    pub(super) fn take(
        &mut self,
        core: &Arc<Core>,
        runner: &Arc<QueueRunner>,
        scope: &Arc<ClaimScope>,
        found: &Arc<Found>,
        lender: &Lender,
        popped: Popped,
    ) {
        let home = match &self.origin {
            Some(origin) if Arc::ptr_eq(&origin.found, found) => Arc::clone(origin),
            _ => self.begin(Origin::new(core, runner, found, lender)),
        };
        if !self.epoch.as_ref().is_some_and(|known| Arc::ptr_eq(known, &scope.epoch)) {
            scope.epoch.is_watched_by(Arc::new(lender.clone()));
            self.epoch = Some(Arc::clone(&scope.epoch));
        }
        let Popped { slot, index, job } = popped;
        let (position, settlement) = (job.position, Settlement::WithClaim);
        let done = Done { slot, index, position, settlement, waited: false };
        let begun = scope.begin(index, &job);
        let unattended = Unattended { home, scope: Arc::clone(scope), ending: Ending::of(&job), begun, done };
        let (args, context) = Context::split(job, Arc::clone(scope));
        self.jobs.push((args, context, Box::new(unattended)));
    }

    pub(super) fn is_full(&self) -> bool {
        self.jobs.len() >= MOST
    }

    /// Offers what was taken to those who run it.
    pub(super) fn offer(&mut self) {
        if let Some(origin) = self.origin.as_ref().filter(|_| !self.jobs.is_empty()) {
            origin.lender.lend(self.jobs.drain(..));
        }
    }

    /// What comes from now on is of another origin.
    fn begin(&mut self, origin: Origin) -> Arc<Origin> {
        self.offer();
        self.epoch = None;
        Arc::clone(self.origin.insert(Arc::new(origin)))
    }
}

/// To whom the handler of a job lends it: `None` when to nobody, or something of the job needs a future.
pub(super) fn lends<'h>(
    core: &Core,
    scope: &ClaimScope,
    found: &'h Found,
    job: &ClaimedJob,
) -> Option<&'h Lender> {
    let lender = found.handler.lender(&job.args)?;
    may_be_lent(core, scope, found, job).then_some(lender)
}

/// Whether nothing of the job needs a future from its start on.
fn may_be_lent(core: &Core, scope: &ClaimScope, found: &Found, job: &ClaimedJob) -> bool {
    let own_timeout = job.attributes.as_ref().and_then(|attributes| attributes.timeout);
    core.config.settling == Settling::Pipelined
        && own_timeout.or(found.timeout).is_none()
        && !is_suspect(job)
        && Expiry::of(job).is_none()
        && !scope.is_cancel_asked(job.id)
        // Each attempt has a span then.
        && !tracing::enabled!(Level::DEBUG)
}

/// The queue and the handler of lent jobs.
struct Origin {
    core: Arc<Core>,
    runner: Arc<QueueRunner>,
    found: Arc<Found>,
    lender: Lender,
}

impl Origin {
    fn new(core: &Arc<Core>, runner: &Arc<QueueRunner>, found: &Arc<Found>, lender: &Lender) -> Self {
        let (core, runner, found) = (Arc::clone(core), Arc::clone(runner), Arc::clone(found));
        Self { core, runner, found, lender: lender.clone() }
    }

    /// How a job is settled whose handler has said everything.
    fn conclude(&self, job: Unattended, ended: Ended) -> Done {
        let Unattended { scope, ending, begun, done, .. } = job;
        ended.note(&self.core, &scope, ending.id, begun);
        Done { settlement: ending.settlement(&self.core, &scope, &self.found, ended), ..done }
    }
}

impl Home for Origin {
    fn ended(self: Arc<Self>, jobs: Vec<(Box<Unattended>, Outcome)>) {
        let _here = self.core.runtime.enter();
        let mut done = Vec::with_capacity(jobs.len());
        for (job, outcome) in jobs {
            match said_last(&job.scope, job.ending.id) {
                None => done.push(self.conclude(*job, Ended::Outcome(outcome))),
                Some(stored) => {
                    let home = Arc::clone(&self);
                    spawn(async move {
                        stored_last(&job.scope, job.ending.id, stored).await;
                        let done = home.conclude(*job, Ended::Outcome(outcome));
                        finish(&home.core, &home.runner, vec![done]);
                    });
                }
            }
        }
        finish(&self.core, &self.runner, done);
    }

    fn attend(self: Arc<Self>, job: Box<Unattended>, outcome: Pin<Box<dyn Future<Output = Outcome> + Send>>) {
        spawn(attended(self, job, outcome));
    }
}

/// Waits for the outcome of a job as its executor would.
async fn attended(
    home: Arc<Origin>,
    job: Box<Unattended>,
    mut outcome: Pin<Box<dyn Future<Output = Outcome> + Send>>,
) {
    let (core, runner, id) = (&home.core, &home.runner, job.ending.id);
    // No executor is occupied by it, so none makes room.
    let ended = drive(core, &job.scope, id, &mut outcome, &mut None).await;
    let ended = caught(move || drop(outcome)).map_or_else(Ended::Panic, |()| ended);
    if let Some(stored) = said_last(&job.scope, id) {
        stored_last(&job.scope, id, stored).await;
    }
    finish(core, runner, vec![home.conclude(*job, ended)]);
}

/// Enters results, and tells those whom that concerns.
fn finish(core: &Arc<Core>, runner: &Arc<QueueRunner>, done: Vec<Done>) {
    if done.is_empty() {
        return;
    }
    let freed = runner.finish_lent(done);
    freed.handed_in.tell(&core.signals);
    if freed.tell_claimer {
        core.signals.wake_claimer();
    }
    activate(core, runner, freed.activation);
}
