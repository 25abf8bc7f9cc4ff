//! One turn of a worker: what is done is settled, then it gets jobs, and where there are none it waits for some.

use super::{Member, TurnAnswer, TurnBody, Work, reports, waiters::Place};
use crate::{bodies::Room, problem::Problem};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use windlass::{
    Args, JobId,
    remote::{Beat, Losses, RemoteJob, Wanting},
};

/// How often the lease of a worker that waits is renewed, within its length.
const RENEWALS: u32 = 3;

pub(crate) async fn turn(
    work: &Work,
    member: &Arc<Member>,
    mut said: TurnBody,
    room: Option<Room>,
) -> Result<TurnAnswer, Problem> {
    let (done, want, wait) = (said.hand_ins(member)?, said.want(member)?, said.wait()?);
    let reports = reports::read(std::mem::take(&mut said.reports), member)?;
    member.uses_memory(said.memory_bytes);
    // Before jobs end: their slots of queues with limits are asked for anew, not given up.
    let wanting = (!want.as_ref().is_some_and(Vec::is_empty)).then(|| member.remote.wanting(want.clone()));
    // Before anything else: who asks again from here on does not read what this turn may still bring.
    let mut losses = member.remote.losses();
    // Of a job that is done now, too.
    let reported = reports::store(member, reports).await?;
    let settled = member.remote.settle(done).await?;
    drop(room);
    let mut beat = member.remote.beat().await?;
    let held = if said.again {
        let held = member.remote.again().await;
        losses = member.remote.losses();
        held
    } else {
        Vec::new()
    };
    let jobs = match held.is_empty() {
        true => match wanting {
            Some(wanting) => jobs(work, member, wanting, want, wait, &mut beat, losses).await?,
            None => {
                news(work, member, wait, &mut beat, losses).await?;
                held
            }
        },
        false => held,
    };
    let checkpoints = checkpoints(work, member, &jobs).await?;
    let (mut answer, untold) = TurnAnswer::new(member, &settled, jobs.into_iter().zip(checkpoints), &beat);
    member.remote.settle(untold).await?;
    answer.reported = reported;
    Ok(answer)
}

/// The last checkpoint of each job, for a worker that wants them.
async fn checkpoints(work: &Work, member: &Member, jobs: &[RemoteJob]) -> Result<Vec<Option<Args>>, Problem> {
    if jobs.is_empty() || !member.checkpoints {
        return Ok(vec![None; jobs.len()]);
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| job.job.id).collect();
    Ok(work.client.store().checkpoints(&ids).await?)
}

/// When somebody who waits renews the lease, or hears before that the time of a job is over.
fn next_beat(member: &Member) -> Instant {
    let renewal = Instant::now() + member.remote.spec().lease / RENEWALS;
    member.remote.next_limit().map_or(renewal, |limit| limit.min(renewal))
}

/// Waits for news of its jobs alone, as a worker whose places are all taken: it must not ask without a pause.
async fn news(
    work: &Work,
    member: &Member,
    wait: Duration,
    beat: &mut Beat,
    mut losses: Losses,
) -> Result<(), Problem> {
    let deadline = Instant::now() + wait;
    while !beat.is_news && Instant::now() < deadline {
        tokio::select! {
            biased;
            () = work.stop.cancelled() => break,
            () = losses.next() => break,
            () = member.told.notified() => {}
            () = sleep_until(next_beat(member).min(deadline)) => {}
        }
        *beat = member.remote.beat().await?;
    }
    Ok(())
}

async fn jobs(
    work: &Work,
    member: &Arc<Member>,
    wanting: Wanting,
    want: Option<Vec<(String, usize)>>,
    wait: Duration,
    beat: &mut Beat,
    mut losses: Losses,
) -> Result<Vec<RemoteJob>, Problem> {
    let spec = member.remote.spec();
    let queues = want.as_ref().map(|want| want.iter().map(|(queue, _)| queue.as_str()).collect::<Vec<_>>());
    let sort: Arc<str> = format!("{:?} {:?} {:?}", queues, spec.queues, spec.kinds).into();
    let deadline = Instant::now() + wait;
    let (mut place, mut woken): (Option<Place>, bool) = (None, false);
    loop {
        if work.stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let mut gains = member.remote.gains();
        // It waits all the same: a client that does not know the word must not ask without a pause.
        let jobs = if beat.drain { Vec::new() } else { wanting.take(&losses).await? };
        if !jobs.is_empty() && woken {
            work.waiters.wake(&sort);
        }
        if !jobs.is_empty() || beat.is_news || Instant::now() >= deadline {
            return Ok(jobs);
        }
        let Some(waiting) = place.take() else {
            // Once more: a job that came before this is announced to nobody.
            place = Some(work.waiters.enter(&sort)?);
            continue;
        };
        tokio::select! {
            biased;
            () = work.stop.cancelled() => return Ok(Vec::new()),
            // Nobody reads this answer, or somebody who asks again for it.
            () = losses.next() => return Ok(Vec::new()),
            () = waiting.woken() => {
                waiting.heard();
                woken = true;
                continue;
            }
            // Of a queue with limits more may start.
            () = gains.next() => {
                place = Some(waiting);
                continue;
            }
            () = member.told.notified() => {}
            () = sleep_until(next_beat(member).min(deadline)) => {}
        }
        *beat = member.remote.beat().await?;
        place = Some(waiting);
    }
}
