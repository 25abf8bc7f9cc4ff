//! What operators do to jobs and queues.

use crate::{
    cancel_request,
    error::Outcome,
    limits,
    locate::{self, Log, Place},
    moves::{self, Dead, End, Waiting},
    position,
    tx::{Count, Tx},
    unique,
};
use rusqlite::params;
use windlass_core::{CancelReply, Disposition, EventType, JobId, JobState, Limits, RetryReply};

/// Cancels a job. One of the log that waits leaves it, so it can never be handed out; for one that runs its worker is asked.
pub(crate) fn cancel(tx: &mut Tx<'_>, id: JobId) -> Outcome<CancelReply> {
    match locate::find(tx, id)? {
        None => Ok(CancelReply::NotFound),
        Some(Place::Dead { .. }) => Ok(CancelReply::Finished),
        Some(Place::Waiting { lane, state }) => {
            moves::bury_waiting(tx, id.0, lane, state, Disposition::BY_REQUEST)?;
            Ok(CancelReply::Cancelled)
        }
        Some(Place::Log { pos }) => cancel_in_log(tx, id, pos),
    }
}

fn cancel_in_log(tx: &mut Tx<'_>, id: JobId, pos: i64) -> Outcome<CancelReply> {
    let found = Log::new(tx.conn).state(pos, id.0)?;
    match (found.state, found.claimed_by) {
        (JobState::Available, _) => {
            let reason = Disposition::BY_REQUEST;
            let end = End { state: Dead::Cancelled, reason, claimed: None, attempts: 0, crashes: 0 };
            moves::bury(tx, pos, &end)?;
            tx.count(position::lane_of(pos), Count::Available, -1);
            Ok(CancelReply::Cancelled)
        }
        (JobState::Running, Some(worker)) => {
            cancel_request::add(tx, id, worker)?;
            Ok(CancelReply::Running)
        }
        _ => Ok(CancelReply::Finished),
    }
}

/// Makes a job available now.
pub(crate) fn retry(tx: &mut Tx<'_>, id: JobId) -> Outcome<RetryReply> {
    match locate::find(tx, id)? {
        None => Ok(RetryReply::NotFound),
        Some(Place::Waiting { lane, state: Waiting::Retryable }) => {
            tx.note_waiting(id.0, EventType::Retried, None)?;
            moves::append_waiting(tx, id.0, lane, Waiting::Retryable)?;
            Ok(RetryReply::Retried)
        }
        Some(Place::Waiting { .. }) => Ok(RetryReply::Pending),
        Some(Place::Dead { .. }) if !unique::take_again(tx, id)? => Ok(RetryReply::KeyTaken),
        Some(Place::Dead { lane, state }) => {
            tx.note_dead(id.0, EventType::Retried)?;
            moves::append_dead(tx, id.0, lane, state)?;
            Ok(RetryReply::Retried)
        }
        Some(Place::Log { pos }) => match Log::new(tx.conn).state(pos, id.0)?.state {
            JobState::Completed => Ok(RetryReply::Completed),
            _ => Ok(RetryReply::Pending),
        },
    }
}

/// Stops or allows claiming from a queue. Where it has limits, workers ask for their shares.
pub(crate) fn pause(tx: &mut Tx<'_>, queue: &str, paused: bool) -> Outcome<()> {
    let set = "UPDATE queue SET paused = ?2 WHERE name = ?1";
    if tx.conn.prepare_cached(set)?.execute(params![queue, paused])? == 0 {
        return Err(Limits::unknown_queue(queue).into());
    }
    if limits::is_limited(tx.conn, queue)? {
        tx.request()?;
    }
    // Idle workers may take what waited.
    if paused { Ok(()) } else { tx.wake() }
}
