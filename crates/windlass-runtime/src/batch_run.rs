//! Runs the jobs of a batch in one call of their handler.

use crate::{
    BatchFuture, BatchHandler, Context,
    batch_stop::{BatchEnd, BatchStop},
    caught,
    conclusion::Ended,
    core::Core,
    disposition::Settlement,
    ending::Ending,
    epoch::ClaimScope,
    last_handler::{Found, LastHandler},
    outbox::{LAST_WORDS_WAIT, told},
    popped::{Gathered, Popped},
    queue_runner::QueueRunner,
    turn::Done,
};
use std::{future::poll_fn, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Level, debug_span};
use windlass_core::{ClaimedJob, Disposition, JobId};

/// A job of the batch while it runs.
struct Member {
    scope: Arc<ClaimScope>,
    id: JobId,
    ending: Ending,
    done: Done,
}

/// Runs the jobs of one batch, all of one kind and registration, and decides how each is settled. `waits` is called once,
/// when something is waited for.
pub(crate) async fn run_batch(
    core: &Core,
    runner: &QueueRunner,
    handlers: &mut LastHandler,
    batch: Vec<Gathered>,
    waits: impl Fn(),
) -> Vec<Done> {
    let (mut over, mut members, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    for Gathered { scope, popped: Popped { slot, index, job } } in batch {
        let settlement = Settlement::WithClaim;
        let mut done = Done { slot, index, position: job.position, settlement, waited: false };
        match scope.instead_of_start(&job) {
            Some(instead) => {
                done.settlement = Settlement::by_itself(instead);
                over.push(done);
            }
            None => {
                members.push(Member { scope, id: job.id, ending: Ending::of(&job), done });
                jobs.push(job);
            }
        }
    }
    let Some(first) = jobs.first() else { return over };
    if !over.is_empty() {
        let left = runner.leave_batch(std::mem::take(&mut over));
        left.tell(&core.signals);
    }
    let found = match handlers.find(core, &first.kind) {
        Ok(found) => found,
        Err(error) => {
            let fail = |member: &Member| member.ending.without_handler(core, error.clone());
            over.extend(members.into_iter().map(|member| Done { settlement: fail(&member), ..member.done }));
            return over;
        }
    };
    let Some((found, handler)) = found.and_then(|found| Some((found, found.handler.batch()?))) else {
        let settlement = || Settlement::by_itself(Disposition::NoHandler);
        over.extend(members.into_iter().map(|member| Done { settlement: settlement(), ..member.done }));
        return over;
    };
    let mut waited = false;
    let mut wait = || {
        if !std::mem::replace(&mut waited, true) {
            waits();
        }
    };
    let begun = |(member, job): (&Member, &ClaimedJob)| member.scope.begin(member.done.index, job);
    let begun: Vec<_> = members.iter().zip(&jobs).map(begun).collect();
    let ended = attempt(core, found, handler, (&members, jobs), &mut wait).await;
    for ((member, begun), ended) in members.iter().zip(begun).zip(&ended) {
        ended.note(core, &member.scope, member.id, begun);
    }
    last_words(&members, &mut wait).await;
    over.extend(members.into_iter().zip(ended).map(|(Member { scope, ending, done, .. }, ended)| Done {
        settlement: ending.settlement(core, &scope, found, ended),
        ..done
    }));
    if let Some(done) = over.first_mut() {
        done.waited = waited; // one executor, however many jobs
    }
    over
}

/// How the attempt of each of the jobs ended, in their order.
async fn attempt(
    core: &Core,
    found: &Found,
    handler: &dyn BatchHandler,
    (members, jobs): (&[Member], Vec<ClaimedJob>),
    wait: &mut impl FnMut(),
) -> Vec<Ended> {
    let span = tracing::enabled!(Level::DEBUG)
        .then(|| debug_span!("batch", kind = %jobs[0].kind, jobs = jobs.len()));
    let who = members.iter().map(|member| (Arc::clone(&member.scope), member.id)).collect();
    let mut stop = BatchStop::new(who, shortest_timeout(found, &jobs), core.config.timeout_grace);
    let scopes = members.iter().map(|member| Arc::clone(&member.scope));
    let jobs = jobs.into_iter().zip(scopes).map(|(job, scope)| Context::split(job, scope)).collect();
    let mut future: BatchFuture = match caught(|| handler.call_batch(jobs)) {
        Ok(future) => future,
        Err(panic) => return stop.of_each(BatchEnd::Panic(panic)),
    };
    if let Some(span) = span {
        future = Box::pin(future.instrument(span));
    }
    let end = poll_fn(|cx| stop.poll(&mut future, &mut *wait, cx)).await;
    let end = caught(move || drop(future)).map_or_else(BatchEnd::Panic, |()| end);
    stop.of_each(end)
}

/// The batch has as much time as the job with the least.
fn shortest_timeout(found: &Found, jobs: &[ClaimedJob]) -> Option<Duration> {
    let own = |job: &ClaimedJob| job.attributes.as_ref().and_then(|attributes| attributes.timeout);
    jobs.iter().filter_map(|job| own(job).or(found.timeout)).min()
}

/// Waits until the store has what the handler said of its jobs.
async fn last_words(members: &[Member], wait: impl FnOnce()) {
    let said = members.iter().filter_map(|member| {
        let stored = member.scope.forget_reporter(member.id)?.close()?;
        Some((member, stored))
    });
    let (said, until) = (said.collect::<Vec<_>>(), Instant::now() + LAST_WORDS_WAIT);
    let Some((Member { scope, .. }, _)) = said.first() else { return };
    wait();
    let epoch = Arc::clone(&scope.epoch);
    epoch.outbox().hurry();
    let stored = async {
        for (member, stored) in said {
            // An error means that the job is not this worker's, or that what was said is lost: the result stands.
            let _ = told(member.id, stored).await;
        }
    };
    tokio::select! {
        biased;
        () = epoch.evicted().cancelled() => {}
        _ = timeout_at(until, stored) => {}
    }
}
