//! Changes to jobs that no worker holds, and their removal.

use crate::{
    clock::{Micros, micros},
    enqueue,
    error::Outcome,
    key_holds::{self, Leaves},
    locate::{self, Log, Place},
    moves::{self, Dead, Waiting},
    position, report,
    tx::{Count, Tx},
};
use rusqlite::params;
use windlass_core::{
    Attributes, DeleteReply, EditReply, Envelope, EventType, JobEdit, JobId, JobState, When,
};

/// Changes a job, wholly or not at all.
pub(crate) fn edit(tx: &mut Tx<'_>, id: JobId, edit: &JobEdit) -> Outcome<EditReply> {
    // Workers look again: what is available may have come nearer, and so may what is due next.
    tx.wake()?;
    match locate::find(tx, id)? {
        None => Ok(EditReply::NotFound),
        Some(Place::Dead { .. }) if edit.when().is_some() => Ok(EditReply::Finished),
        Some(Place::Dead { lane, state }) => edit_dead(tx, id.0, edit, lane, state),
        Some(Place::Waiting { lane, state }) => {
            if let Some(refused) = set(tx, "waiting", "id", id.0, edit)? {
                return Ok(refused);
            }
            edit_waiting(tx, id.0, edit, lane, state)
        }
        Some(Place::Log { pos }) => match Log::new(tx.conn).state(pos, id.0)?.state {
            JobState::Available => edit_available(tx, id.0, edit, pos),
            JobState::Running => Ok(EditReply::Running),
            _ => Ok(EditReply::Finished),
        },
    }
}

fn edit_dead(tx: &mut Tx<'_>, id: i64, edit: &JobEdit, lane: i32, state: Dead) -> Outcome<EditReply> {
    if let Some(refused) = set(tx, "dead", "id", id, edit)? {
        return Ok(refused);
    }
    let to = target(tx, lane, edit)?;
    tx.conn.prepare_cached("UPDATE dead SET lane = ?2 WHERE id = ?1")?.execute(params![id, to])?;
    recount(tx, state.count(), lane, to);
    Ok(EditReply::Edited)
}

/// What is not about its row's own values: where it waits, and until when.
fn edit_waiting(tx: &mut Tx<'_>, id: i64, edit: &JobEdit, lane: i32, state: Waiting) -> Outcome<EditReply> {
    let to = target(tx, lane, edit)?;
    if Leaves::of_lane(tx, lane, to) == Leaves::ForGood {
        key_holds::over(tx, id)?;
    }
    tx.conn.prepare_cached("UPDATE waiting SET lane = ?2 WHERE id = ?1")?.execute(params![id, to])?;
    recount(tx, state.count(), lane, to);
    let Some(when) = edit.when() else { return Ok(EditReply::Edited) };
    match (enqueue::due(when, tx.now), state) {
        (Some(at), _) => postpone(tx, id, at, to, state)?,
        // It is available, to those who know its kind.
        (None, Waiting::NoHandler) => {}
        (None, _) => drop(moves::append_waiting(tx, id, to, state)?),
    }
    Ok(EditReply::Edited)
}

/// Until then; one that failed is still one that failed.
fn postpone(tx: &mut Tx<'_>, id: i64, at: Micros, lane: i32, state: Waiting) -> Outcome<()> {
    let now = if state == Waiting::Retryable { state } else { Waiting::Scheduled };
    let set = "UPDATE waiting SET available_at = ?2, state = ?3 WHERE id = ?1";
    tx.conn.prepare_cached(set)?.execute(params![id, at, now as i64])?;
    tx.recount(lane, state.count(), now.count());
    Ok(())
}

fn edit_available(tx: &mut Tx<'_>, id: i64, edit: &JobEdit, pos: i64) -> Outcome<EditReply> {
    if let Some(refused) = set(tx, "job", "pos", pos, edit)? {
        return Ok(refused);
    }
    let lane = position::lane_of(pos);
    if let Some(at) = edit.when().and_then(|when| enqueue::due(when, tx.now)) {
        moves::wait(tx, pos, Waiting::Scheduled, at, 0)?;
        tx.count(lane, Count::Available, -1);
        return edit_waiting(tx, id, edit, lane, Waiting::Scheduled);
    }
    let to = target(tx, lane, edit)?;
    if to != lane {
        moves::relocate(tx, pos, to)?;
    }
    Ok(EditReply::Edited)
}

/// Sets what stands in the job's row, wherever that is; or says why not, and changes nothing.
fn set(tx: &Tx<'_>, table: &str, key: &str, at: i64, edit: &JobEdit) -> Outcome<Option<EditReply>> {
    let text = |column| {
        let read = format!("SELECT coalesce({column}, '') FROM {table} WHERE {key} = ?1");
        tx.conn.prepare_cached(&read)?.query_one([at], |row| row.get::<_, String>(0))
    };
    if edit.args().is_some() && Envelope::is_one(text("args")?.as_bytes()) {
        return Ok(Some(EditReply::Encrypted));
    }
    let due = match edit.when() {
        Some(When::At(at)) => Some(at.as_microsecond()),
        Some(When::After(delay)) => Some(tx.now.saturating_add(micros(delay))),
        _ => None,
    };
    if let Some(due) = due
        && let Some(attributes) = Attributes::from_store(&text("attributes")?)?
        && attributes.expires_at.is_some_and(|at| at.as_microsecond() <= due)
    {
        return Ok(Some(EditReply::Expires));
    }
    // A dead one gets them anew.
    if let Some(most) = edit.max_attempts().filter(|_| table != "dead") {
        let read = format!("SELECT attempt FROM {table} WHERE {key} = ?1");
        let used: u16 = tx.conn.prepare_cached(&read)?.query_one([at], |row| row.get(0))?;
        if most <= used {
            return Ok(Some(EditReply::AttemptsUsed));
        }
    }
    let set = format!(
        "UPDATE {table} SET max_attempts = coalesce(?2, max_attempts), args = coalesce(?3, args) WHERE {key} = ?1"
    );
    let values = params![at, edit.max_attempts(), edit.args().map(|args| args.as_str())];
    tx.conn.prepare_cached(&set)?.execute(values)?;
    Ok(None)
}

/// The lane that the job is to be in.
fn target(tx: &mut Tx<'_>, lane: i32, edit: &JobEdit) -> Outcome<i32> {
    if edit.queue().is_none() && edit.priority().is_none() {
        return Ok(lane);
    }
    let present = "SELECT queue, priority FROM lane WHERE id = ?1";
    let (queue, priority) =
        tx.conn.prepare_cached(present)?.query_one([lane], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let queue = edit.queue().map_or(Ok(queue), |name| tx.queue(name))?;
    tx.lane(queue, edit.priority().unwrap_or(priority))
}

fn recount(tx: &mut Tx<'_>, count: Count, from: i32, to: i32) {
    tx.count(from, count, -1);
    tx.count(to, count, 1);
}

/// Removes a job that no worker holds, with its errors.
pub(crate) fn delete(tx: &mut Tx<'_>, id: JobId) -> Outcome<DeleteReply> {
    match locate::find(tx, id)? {
        None => return Ok(DeleteReply::NotFound),
        Some(Place::Waiting { lane, state }) => {
            tx.note_waiting(id.0, EventType::Deleted, None)?;
            key_holds::over(tx, id.0)?;
            tx.conn.prepare_cached("DELETE FROM waiting WHERE id = ?1")?.execute([id.0])?;
            tx.count(lane, state.count(), -1);
        }
        Some(Place::Dead { lane, state }) => {
            tx.note_dead(id.0, EventType::Deleted)?;
            tx.conn.prepare_cached("DELETE FROM dead WHERE id = ?1")?.execute([id.0])?;
            tx.count(lane, state.count(), -1);
        }
        Some(Place::Log { pos }) => match Log::new(tx.conn).state(pos, id.0)?.state {
            JobState::Available => {
                tx.note_in_log(pos, EventType::Deleted, None, 0, None)?;
                key_holds::leave(tx, pos, Leaves::ForGood)?;
                tx.keep_told(pos)?;
                moves::remove(tx, pos)?;
                tx.count(position::lane_of(pos), Count::Available, -1);
            }
            JobState::Running => return Ok(DeleteReply::Running),
            _ => return Ok(DeleteReply::Completed),
        },
    }
    tx.conn.prepare_cached("DELETE FROM attempt_error WHERE job = ?1")?.execute([id.0])?;
    report::forget(tx, id.0)?;
    Ok(DeleteReply::Deleted)
}
