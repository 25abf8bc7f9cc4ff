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
    room::Room,
    settlement::{Completed, Settlement},
    tx::Tx,
};
use std::collections::HashMap;
use windlass_core::{ClaimRef, Disposition, ErrorKind, EventType, Exception, JobId, Settled, WorkerId};

const FIND: &str =
    "SELECT coalesce(id, pos & 35184372088831), attempt, octet_length(args) FROM job WHERE pos = ?1";

/// What became of a part of a request.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Of exceptions, by their places.
    pub(crate) exceptions: Vec<(usize, Settled)>,
    pub(crate) completions: Vec<Settled>,
    /// Which of the part's `others` is the next, where there was no room for all; nor are its completions settled then.
    pub(crate) stopped_at: Option<usize>,
}

/// Settles a part of a request, from this one of its `others` on, as far as there is room for jobs that move. Exceptions first: a completion of the rest
/// means the rest of those too.
pub(crate) fn settle(tx: &mut Tx<'_>, settlement: &Settlement, from: usize) -> Outcome<Reply> {
    tx.fence(settlement.worker)?;
    let mut leases = Leases { worker: settlement.worker, known: HashMap::new() };
    let (mut reply, mut room) = (Reply::default(), Room::WHOLE);
    if from == 0 {
        complete_by_themselves(tx, &mut leases, &settlement.completed, (&mut reply, &mut room))?;
    }
    for (nth, (place, exception)) in settlement.others.iter().enumerate().skip(from) {
        if room.is_used_up() {
            reply.stopped_at = Some(nth);
            break;
        }
        let settled = leases.except(tx, exception, &mut room)?;
        reply.exceptions.push((*place, settled));
    }
    if reply.stopped_at.is_none() {
        for completion in &settlement.completions {
            let settled = match leases.get(tx, completion.claim)? {
                Some(lease) => complete(tx, lease, &completion.jobs)?,
                None => Settled::Refused,
            };
            reply.completions.push(settled);
        }
    }
    leases.save(tx)?;
    Ok(reply)
}

/// Those that completed by themselves: together with the others of their claim where that can be.
fn complete_by_themselves(
    tx: &mut Tx<'_>,
    leases: &mut Leases,
    claims: &[Completed],
    (reply, room): (&mut Reply, &mut Room),
) -> Outcome<()> {
    let mut apart = Vec::new();
    for completed in claims {
        let together = match leases.get(tx, completed.claim)? {
            Some(lease) => completion::complete_together(tx, lease, completed)?,
            None => false,
        };
        match together {
            true => reply.exceptions.extend(completed.jobs.iter().map(|job| (job.place, Settled::Accepted))),
            false => apart.extend(completed.one_by_one()?),
        }
    }
    for (place, exception) in &apart {
        let settled = leases.except(tx, exception, room)?;
        reply.exceptions.push((*place, settled));
    }
    Ok(())
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

    fn except(&mut self, tx: &mut Tx<'_>, exception: &Exception, room: &mut Room) -> Outcome<Settled> {
        match self.get(tx, exception.claim)? {
            Some(lease) => except(tx, lease, exception, room),
            None => Ok(Settled::Refused),
        }
    }

    fn save(self, tx: &Tx<'_>) -> Outcome<()> {
        let changed = self.known.into_values().flatten().filter(|(lease, stored)| lease.open != *stored);
        for (lease, _) in changed {
            lease.save(tx)?;
        }
        Ok(())
    }
}

fn except(tx: &mut Tx<'_>, lease: &mut Lease, exception: &Exception, room: &mut Room) -> Outcome<Settled> {
    if !(lease.lo..=lease.hi).contains(&exception.position) {
        return Ok(Settled::Refused);
    }
    let Some((id, attempt, bytes)) = find(tx, exception.position)? else { return Ok(Settled::Already) };
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
    room.take(bytes);
    let attempt = attempt.saturating_add(1);
    match cancel_request::take(tx, id)? && exception.disposition.brings_back() {
        true => cancel_instead(tx, lease, exception, attempt)?,
        false => dispose(tx, lease, exception, attempt)?,
    }
    lease.release(tx);
    Ok(Settled::Accepted)
}

fn find(tx: &Tx<'_>, pos: i64) -> Outcome<Option<(JobId, u16, i64)>> {
    let mut find = tx.conn.prepare_cached(FIND)?;
    let mut rows = find.query([pos])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((JobId(row.get(0)?), row.get(1)?, row.get(2)?)))
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
