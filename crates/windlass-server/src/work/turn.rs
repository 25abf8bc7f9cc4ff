//! One turn of a worker: what is done is settled, then it gets jobs, and where there are none it waits for some.

use super::{Member, TurnAnswer, TurnBody, Work, waiters::Place};
use crate::problem::Problem;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use windlass::remote::{Beat, Losses, RemoteJob, Wanting};

/// How often the lease of a worker that waits is renewed, within its length.
const RENEWALS: u32 = 3;

pub(crate) async fn turn(
    work: &Work,
    member: &Arc<Member>,
    mut said: TurnBody,
) -> Result<TurnAnswer, Problem> {
    let (done, want, wait) = (said.hand_ins(member)?, said.want(member)?, said.wait()?);
    // Before jobs end: their slots of queues with limits are asked for anew, not given up.
    let wanting = (!want.as_ref().is_some_and(Vec::is_empty)).then(|| member.remote.wanting(want.clone()));
    // Before anything else: who asks again from here on does not read what this turn may still bring.
    let mut losses = member.remote.losses();
    let settled = member.remote.settle(done).await?;
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
            None => held,
        },
        false => held,
    };
    let (answer, untold) = TurnAnswer::new(member, &settled, jobs, &beat);
    member.remote.settle(untold).await?;
    Ok(answer)
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
        let jobs = wanting.take(&losses).await?;
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
        let renewal = Instant::now() + spec.lease / RENEWALS;
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
            () = sleep_until(renewal.min(deadline)) => {}
        }
        *beat = member.remote.beat().await?;
        place = Some(waiting);
    }
}
