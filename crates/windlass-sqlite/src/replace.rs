//! A unique job takes the place of one that waits and was not tried yet. The time of the first enqueue stays.

use crate::{
    clock::{Micros, timestamp},
    enqueue::Batch,
    error::Outcome,
    key_holds,
    locate::{self, Log, Place},
    moves::{self, Dead, End, Waiting},
    position, report,
    tx::{Count, Tx},
};
use jiff::Timestamp;
use rusqlite::params;
use windlass_core::{JobId, JobState, NewJob};

const CHANGE: &str =
    "UPDATE waiting SET lane = ?2, available_at = ?3, kind = ?4, args = ?5, max_attempts = ?6,
    crash_count = 0, attributes = ?7 WHERE id = ?1";
const SINCE: &str = "UPDATE job SET enqueued_at = ?2 WHERE pos = ?1";
const WAITS_SINCE: &str = "UPDATE waiting SET enqueued_at = ?2 WHERE id = ?1";
const FORGET_ERRORS: &str = "DELETE FROM attempt_error WHERE job = ?1";

/// The id under which the new job stands; `None` when the old one has begun.
pub(crate) fn replace(
    tx: &mut Tx<'_>,
    id: JobId,
    new: &NewJob,
    max_wait: Option<Micros>,
    due: Option<Micros>,
) -> Outcome<Option<JobId>> {
    let Some(place) = fresh(tx, id)? else { return Ok(None) };
    let enqueued_at = enqueued_at(tx, id, &place)?;
    let latest = max_wait.map_or(Micros::MAX, |wait| enqueued_at.saturating_add(wait));
    let due = due.unwrap_or(tx.now).min(latest);
    if let Place::Waiting { lane, state: Waiting::Scheduled } = place {
        change(tx, id, lane, new, due)?;
        return Ok(Some(id));
    }
    let at = Timestamp::from_microsecond(due).unwrap_or(Timestamp::MAX);
    let new_id = Batch::pack(&[new.clone().with_scheduled_at(at)]).append(tx)?[0];
    let reason = format!("replaced by job {new_id}");
    match place {
        Place::Log { pos } => {
            let end = End { state: Dead::Cancelled, reason: &reason, claimed: None, attempts: 0, crashes: 0 };
            moves::bury(tx, pos, &end)?;
            tx.count(position::lane_of(pos), Count::Available, -1);
        }
        Place::Waiting { lane, state } => moves::bury_waiting(tx, id.0, lane, state, &reason)?,
        Place::Dead { .. } => {}
    }
    let queue = tx.queue(new.queue())?;
    let pos = position::at(tx.lane(queue, new.priority())?, new_id.0);
    if tx.conn.prepare_cached(SINCE)?.execute(params![pos, enqueued_at])? == 0 {
        tx.conn.prepare_cached(WAITS_SINCE)?.execute(params![new_id.0, enqueued_at])?;
    }
    Ok(Some(new_id))
}

/// Whether a job waits and was not tried yet, and where.
pub(crate) fn fresh(tx: &Tx<'_>, job: JobId) -> Outcome<Option<Place>> {
    let Some(place) = locate::find(tx, job)? else { return Ok(None) };
    let (attempts, at) = match place {
        Place::Waiting { state: Waiting::Retryable, .. } | Place::Dead { .. } => return Ok(None),
        Place::Waiting { .. } => ("SELECT attempt FROM waiting WHERE id = ?1", job.0),
        Place::Log { pos } if Log::new(tx.conn).state(pos, job.0)?.state == JobState::Available => {
            ("SELECT attempt FROM job WHERE pos = ?1", pos)
        }
        Place::Log { .. } => return Ok(None),
    };
    let attempts = locate::first(tx.conn, attempts, at, |row| row.get::<_, i64>(0))?;
    Ok((attempts == Some(0)).then_some(place))
}

fn enqueued_at(tx: &Tx<'_>, id: JobId, place: &Place) -> Outcome<Micros> {
    let (find, at) = match place {
        Place::Log { pos } => ("SELECT enqueued_at FROM job WHERE pos = ?1", *pos),
        _ => ("SELECT enqueued_at FROM waiting WHERE id = ?1", id.0),
    };
    Ok(locate::first(tx.conn, find, at, |row| row.get(0))?.unwrap_or(tx.now))
}

/// Of a job that waits for its time everything is changed but the id.
fn change(tx: &mut Tx<'_>, id: JobId, old_lane: i32, new: &NewJob, due: Micros) -> Outcome<()> {
    let queue = tx.queue(new.queue())?;
    let key = new.attributes().and_then(|attributes| attributes.key.as_deref());
    key_holds::over_elsewhere(tx, id.0, queue, key)?;
    let lane = tx.lane(queue, new.priority())?;
    let attributes = new.attributes().map(|attributes| attributes.received(timestamp(tx.now)).to_json());
    let (kind, args) = (new.kind(), new.args().as_str());
    let row = params![id.0, lane, due, kind, args, new.max_attempts(), attributes];
    tx.conn.prepare_cached(CHANGE)?.execute(row)?;
    // It may have been handed out: what came of that was the old one's.
    tx.conn.prepare_cached(FORGET_ERRORS)?.execute([id.0])?;
    report::forget(tx, id.0)?;
    tx.count(old_lane, Count::Scheduled, -1);
    tx.count(lane, Count::Scheduled, 1);
    if due <= tx.now {
        moves::append_waiting(tx, id.0, lane, Waiting::Scheduled)?;
    }
    // It may be due sooner than those who promote know.
    tx.wake()
}
