//! Settle: what became of claimed jobs, in one transaction and idempotent.
//!
//! A completion changes one claim row, whatever the number of jobs. Any other disposition takes the job out of the
//! log, so "is its row still there" tells a repeated call from a first one.

use crate::{
    cancel_request,
    clock::micros,
    completion::{self, complete},
    error::Outcome,
    lease::Lease,
    moves::{self, Dead, End, Waiting},
    tx::Tx,
};
use std::collections::HashMap;
use windlass_core::{
    ClaimRef, CompletedJobs, Disposition, ErrorKind, EventType, Exception, JobId, SettleReply, SettleRequest,
    Settled, WorkerId,
};

const FIND: &str = "SELECT coalesce(id, pos & 35184372088831), attempt FROM job WHERE pos = ?1";

/// The most exceptions of one transaction: each is several rows that change, and others wait.
const EXCEPTIONS: usize = 1_000;

/// A request in parts, each with the places of its exceptions. Who repeats it because one of them failed is told of those before that they are settled
/// already. What completed stays together: that is a row for many.
pub(crate) fn parts(request: &SettleRequest) -> Vec<(Vec<usize>, SettleRequest)> {
    let places: Vec<usize> = (0..request.exceptions.len()).collect();
    if places.len() <= EXCEPTIONS {
        return vec![(places, request.clone())];
    }
    let is_completed =
        |place: &usize| matches!(request.exceptions[*place].disposition, Disposition::Complete { .. });
    let (completed, others): (Vec<_>, Vec<_>) = places.into_iter().partition(is_completed);
    let parts = others.chunks(EXCEPTIONS).map(<[usize]>::to_vec).chain([completed]).map(|places| {
        let exceptions = places.iter().map(|place| request.exceptions[*place].clone()).collect();
        (places, SettleRequest { worker: request.worker, completions: Vec::new(), exceptions })
    });
    let mut parts: Vec<_> = parts.collect();
    parts.last_mut().into_iter().for_each(|(_, last)| last.completions.clone_from(&request.completions));
    parts
}

/// Settles a request. Exceptions first: a completion of the rest means the rest of those too.
pub(crate) fn settle(tx: &mut Tx<'_>, request: &SettleRequest) -> Outcome<SettleReply> {
    tx.fence(request.worker)?;
    let mut leases = Leases { worker: request.worker, known: HashMap::new() };
    let exceptions = vec![Settled::Refused; request.exceptions.len()];
    let mut reply = SettleReply { exceptions, ..SettleReply::default() };
    let (claims, mut one_by_one) = CompletedJobs::of(&request.exceptions)
        .unwrap_or_else(|| (Vec::new(), request.exceptions.iter().enumerate().collect()));
    for claim in claims {
        let together = match leases.get(tx, claim.claim)? {
            Some(lease) => completion::complete_together(tx, lease, &claim)?,
            None => false,
        };
        match together {
            true => claim.jobs.iter().for_each(|(place, _)| reply.exceptions[*place] = Settled::Accepted),
            false => one_by_one.extend(claim.jobs),
        }
    }
    for (place, exception) in one_by_one {
        if let Some(lease) = leases.get(tx, exception.claim)? {
            reply.exceptions[place] = except(tx, lease, exception)?;
        }
    }
    for completion in &request.completions {
        let settled = match leases.get(tx, completion.claim)? {
            Some(lease) => complete(tx, lease, &completion.jobs)?,
            None => Settled::Refused,
        };
        reply.completions.push(settled);
    }
    leases.save(tx)?;
    Ok(reply)
}

/// The claims of one request, read once and written once.
struct Leases {
    worker: WorkerId,
    /// The claim now, and its open jobs as stored.
    known: HashMap<ClaimRef, Option<(Lease, i64)>>,
}

impl Leases {
    fn get(&mut self, tx: &Tx<'_>, claim: ClaimRef) -> Outcome<Option<&mut Lease>> {
        if !self.known.contains_key(&claim) {
            let found = Lease::find(tx, self.worker, claim)?;
            self.known.insert(claim, found.map(|lease| (lease, lease.open)));
        }
        Ok(self.known.get_mut(&claim).and_then(Option::as_mut).map(|(lease, _)| lease))
    }

    fn save(self, tx: &Tx<'_>) -> Outcome<()> {
        let changed = self.known.into_values().flatten().filter(|(lease, stored)| lease.open != *stored);
        for (lease, _) in changed {
            lease.save(tx)?;
        }
        Ok(())
    }
}

fn except(tx: &mut Tx<'_>, lease: &mut Lease, exception: &Exception) -> Outcome<Settled> {
    if !(lease.lo..=lease.hi).contains(&exception.position) {
        return Ok(Settled::Refused);
    }
    let Some((id, attempt)) = find(tx, exception.position)? else { return Ok(Settled::Already) };
    if id != exception.job {
        return Ok(Settled::Refused);
    }
    if lease.open == 0 || (lease.completed > 0 && lease.is_settled(tx, id.0)?) {
        return Ok(Settled::Already);
    }
    if let Disposition::Complete { result } = &exception.disposition {
        completion::complete_one(tx, lease, id, result.as_ref())?;
        return Ok(Settled::Accepted);
    }
    let attempt = attempt.saturating_add(1);
    match cancel_request::take(tx, id)? && exception.disposition.brings_back() {
        true => cancel_instead(tx, lease, exception, attempt)?,
        false => dispose(tx, lease, exception, attempt)?,
    }
    lease.release(tx);
    Ok(Settled::Accepted)
}

fn find(tx: &Tx<'_>, pos: i64) -> Outcome<Option<(JobId, u16)>> {
    let mut find = tx.conn.prepare_cached(FIND)?;
    let mut rows = find.query([pos])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((JobId(row.get(0)?), row.get(1)?)))
}

/// The job was to be cancelled, and would have come back.
fn cancel_instead(tx: &mut Tx<'_>, lease: &Lease, exception: &Exception, attempt: u16) -> Outcome<()> {
    if let Disposition::Retry { error, .. } = &exception.disposition {
        tx.note_error(exception.job, attempt, error)?;
        tx.note_in_log(exception.position, EventType::Failed, Some(lease.worker), 1, Some(error))?;
    }
    let (reason, claimed) = (Disposition::BY_REQUEST, Some((lease.claimed_at, lease.worker)));
    let end = End { state: Dead::Cancelled, reason, claimed, attempts: 1, crashes: 0 };
    moves::bury(tx, exception.position, &end)
}

/// Moves the job where its disposition says. `attempt` is the one that just ended.
fn dispose(tx: &mut Tx<'_>, lease: &Lease, exception: &Exception, attempt: u16) -> Outcome<()> {
    let pos = exception.position;
    let claimed = Some((lease.claimed_at, lease.worker));
    let end = |state, reason| End { state, reason, claimed, attempts: 1, crashes: 0 };
    let tell =
        |tx: &Tx<'_>, what, reason: Option<&str>| tx.note_in_log(pos, what, Some(lease.worker), 1, reason);
    match &exception.disposition {
        Disposition::Retry { delay, error } => {
            tx.note_error(exception.job, attempt, error)?;
            tell(tx, EventType::Failed, Some(error))?;
            moves::wait(tx, pos, Waiting::Retryable, tx.now.saturating_add(micros(*delay)), 1)
        }
        Disposition::Snooze { delay } => {
            tell(tx, EventType::Snoozed, None)?;
            moves::wait(tx, pos, Waiting::Scheduled, tx.now.saturating_add(micros(*delay)), 0)
        }
        Disposition::Undecryptable { delay, error } => {
            tx.note_error_once(exception.job, attempt, error)?;
            tell(tx, EventType::Snoozed, Some(error))?;
            moves::wait(tx, pos, Waiting::Retryable, tx.now.saturating_add(micros(*delay)), 0)
        }
        Disposition::Cancel { reason } => moves::bury(tx, pos, &end(Dead::Cancelled, reason)),
        Disposition::Discard { error, failed } => {
            if *failed {
                tx.note_error(exception.job, attempt, error)?;
                tell(tx, EventType::Failed, Some(error))?;
            }
            moves::bury(tx, pos, &end(Dead::Discarded, error))
        }
        Disposition::NoHandler => {
            // Another worker may know the kind, and may be asleep.
            tx.wake()?;
            tell(tx, EventType::Returned, Some("its worker does not know its kind"))?;
            moves::wait(tx, pos, Waiting::NoHandler, tx.now, 0)
        }
        Disposition::Return => {
            tell(tx, EventType::Returned, None)?;
            moves::append_again(tx, pos, 0)
        }
        other => {
            let message =
                format!("this store does not know the disposition {other:?}; use matching versions");
            Err(crate::error::Fault::refused(ErrorKind::Unsupported, message))
        }
    }
}
