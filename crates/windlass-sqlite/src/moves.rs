//! How a job moves between the log, `waiting` and `dead`: one function per move, which also changes the counts.

use crate::{
    clock::Micros,
    error::Outcome,
    key_holds::{self, Leaves},
    position,
    tx::{Count, Tx},
};
use rusqlite::params;
use windlass_core::{EventType, JobState};

/// The states of a waiting job, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Scheduled = 0,
    Retryable = 1,
    NoHandler = 2,
}

impl Waiting {
    pub(crate) fn of(stored: i64) -> Self {
        match stored {
            0 => Self::Scheduled,
            1 => Self::Retryable,
            _ => Self::NoHandler,
        }
    }

    pub(crate) fn job_state(self) -> JobState {
        match self {
            Self::Scheduled => JobState::Scheduled,
            Self::Retryable => JobState::Retryable,
            Self::NoHandler => JobState::Available,
        }
    }

    pub(crate) fn count(self) -> Count {
        match self {
            Self::Scheduled => Count::Scheduled,
            Self::Retryable => Count::Retryable,
            Self::NoHandler => Count::NoHandler,
        }
    }
}

/// The states of a dead job, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    Cancelled = 0,
    Discarded = 1,
}

impl Dead {
    pub(crate) fn of(stored: i64) -> Self {
        if stored == 0 { Self::Cancelled } else { Self::Discarded }
    }

    pub(crate) fn job_state(self) -> JobState {
        match self {
            Self::Cancelled => JobState::Cancelled,
            Self::Discarded => JobState::Discarded,
        }
    }

    pub(crate) fn event(self) -> EventType {
        match self {
            Self::Cancelled => EventType::Cancelled,
            Self::Discarded => EventType::Discarded,
        }
    }

    pub(crate) fn count(self) -> Count {
        match self {
            Self::Cancelled => Count::Cancelled,
            Self::Discarded => Count::Discarded,
        }
    }
}

/// Why and by whom a job of the log ends.
pub(crate) struct End<'a> {
    pub(crate) state: Dead,
    pub(crate) reason: &'a str,
    /// When and by whom it was claimed, if it was.
    pub(crate) claimed: Option<(Micros, i32)>,
    /// Attempts and crashes to count now.
    pub(crate) attempts: u16,
    pub(crate) crashes: u16,
}

/// Log to waiting. The caller counts where the job came from.
pub(crate) fn wait(tx: &mut Tx<'_>, pos: i64, state: Waiting, at: Micros, attempts: u16) -> Outcome<()> {
    let lane = position::base(position::lane_of(pos));
    key_holds::leave(tx, pos, Leaves::ForAWhile)?;
    tx.keep_told(pos)?;
    let copy = params![pos, lane, state as i64, at, attempts];
    tx.conn.prepare_cached(include_str!("sql/wait.sql"))?.execute(copy)?;
    remove(tx, pos)?;
    tx.count(lane, state.count(), 1);
    Ok(())
}

/// Log to dead. The caller counts where the job came from.
pub(crate) fn bury(tx: &mut Tx<'_>, pos: i64, end: &End<'_>) -> Outcome<()> {
    let lane = position::base(position::lane_of(pos));
    let (at, by) = end.claimed.unzip();
    let reason = windlass_core::Limits::storable_error(end.reason);
    let begun = end.claimed.map_or(0, |_| 1);
    tx.note_in_log(pos, end.state.event(), by, begun, Some(end.reason))?;
    key_holds::leave(tx, pos, Leaves::ForGood)?;
    tx.keep_told(pos)?;
    let copy = params![pos, lane, end.state as i64, reason, at, by, tx.now, end.attempts, end.crashes];
    tx.conn.prepare_cached(include_str!("sql/bury.sql"))?.execute(copy)?;
    remove(tx, pos)?;
    tx.count(lane, end.state.count(), 1);
    Ok(())
}

/// Log to the end of the log. The caller counts where the job came from.
pub(crate) fn append_again(tx: &mut Tx<'_>, pos: i64, crashes: u16) -> Outcome<()> {
    let lane = position::base(position::lane_of(pos));
    key_holds::leave(tx, pos, Leaves::ForAWhile)?;
    tx.keep_told(pos)?;
    let new = position::at(lane, tx.next_sequence()?);
    tx.conn
        .prepare_cached(include_str!("sql/append_again.sql"))?
        .execute(params![pos, new, crashes, tx.now])?;
    tx.count(lane, Count::Available, 1);
    Ok(())
}

/// Log to the end of the log in another lane, for a job that is available.
pub(crate) fn relocate(tx: &mut Tx<'_>, pos: i64, lane: i32) -> Outcome<()> {
    let leaves = Leaves::of_lane(tx, position::lane_of(pos), lane);
    key_holds::leave(tx, pos, leaves)?;
    tx.keep_told(pos)?;
    let new = position::at(lane, tx.next_sequence()?);
    tx.conn.prepare_cached(include_str!("sql/append_again.sql"))?.execute(params![
        pos,
        new,
        0,
        None::<Micros>
    ])?;
    tx.count(position::lane_of(pos), Count::Available, -1);
    tx.count(lane, Count::Available, 1);
    Ok(())
}

/// Waiting to the log; `lane` may be the direct twin, whose jobs are handed out at once.
pub(crate) fn append_waiting(tx: &mut Tx<'_>, id: i64, lane: i32, state: Waiting) -> Outcome<i64> {
    let new = position::at(lane, tx.next_sequence()?);
    tx.conn.prepare_cached(include_str!("sql/append_waiting.sql"))?.execute(params![id, new, tx.now])?;
    tx.conn.prepare_cached("DELETE FROM waiting WHERE id = ?1")?.execute([id])?;
    tx.recount(lane, state.count(), Count::Available);
    Ok(new)
}

/// Dead to the log, with attempts and crashes forgotten.
pub(crate) fn append_dead(tx: &mut Tx<'_>, id: i64, lane: i32, state: Dead) -> Outcome<()> {
    let new = position::at(lane, tx.next_sequence()?);
    tx.conn.prepare_cached(include_str!("sql/append_dead.sql"))?.execute(params![id, new, tx.now])?;
    tx.conn.prepare_cached("DELETE FROM dead WHERE id = ?1")?.execute([id])?;
    tx.recount(lane, state.count(), Count::Available);
    Ok(())
}

/// Waiting to dead, by a user's cancel.
pub(crate) fn bury_waiting(tx: &mut Tx<'_>, id: i64, lane: i32, state: Waiting, reason: &str) -> Outcome<()> {
    tx.note_waiting(id, EventType::Cancelled, Some(reason))?;
    key_holds::over(tx, id)?;
    tx.conn.prepare_cached(include_str!("sql/bury_waiting.sql"))?.execute(params![id, reason, tx.now])?;
    tx.conn.prepare_cached("DELETE FROM waiting WHERE id = ?1")?.execute([id])?;
    tx.recount(lane, state.count(), Count::Cancelled);
    Ok(())
}

/// Out of the log. The caller counts where the job came from.
pub(crate) fn remove(tx: &Tx<'_>, pos: i64) -> Outcome<()> {
    tx.conn.prepare_cached("DELETE FROM job WHERE pos = ?1")?.execute([pos])?;
    Ok(())
}
