//! One transaction of the writer, and what the writer remembers between transactions.

use crate::{
    clock::Micros,
    error::{Fault, Outcome},
    identity::APPLICATION_ID,
    key_changes, key_entry,
    keyed::Keyed,
    names::Names,
    number_lanes::NewestLanes,
    position,
};
use rusqlite::{Connection, params};
use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
};
use windlass_core::{ErrorKind, JobId, WorkerId};

/// Where a job is counted. The order is that of the columns in [`FLUSH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Available,
    Running,
    Completed,
    Scheduled,
    Retryable,
    NoHandler,
    Cancelled,
    Discarded,
}

const COUNTS: usize = 8;

const BEGIN: &str =
    "SELECT next_sequence, key_changes, name_changes, lanes_upto, newest_stretches FROM log_state";
const END: &str = "UPDATE log_state SET next_sequence = ?1, lanes_upto = ?1";
const END_HANDED: &str = "UPDATE log_state SET next_sequence = ?1, lanes_upto = ?1, handed = handed + ?2";
const LANES_MISSED: &str = "UPDATE log_state SET lanes_from = ?1";
const FLUSH: &str =
    "UPDATE lane SET available = available + ?2, running = running + ?3, completed = completed + ?4,
    scheduled = scheduled + ?5, retryable = retryable + ?6, no_handler = no_handler + ?7, cancelled = cancelled + ?8,
    discarded = discarded + ?9, idle_since = NULL WHERE id = ?1";

/// What the writer keeps between transactions. Forgotten whenever one is rolled back.
#[derive(Default)]
pub(crate) struct Memory {
    next_sequence: i64,
    stored_sequence: i64,
    /// A program that does not note lanes took the last numbers.
    lanes_missed: bool,
    lanes: NewestLanes,
    /// Of the numbers taken, those that are no sign of work.
    handed: i64,
    counts: HashMap<i32, [i64; COUNTS]>,
    /// Heartbeats have something to say.
    pub(crate) requested: bool,
    names: Names,
    keyed: Keyed,
}

/// An open write transaction: the database is this thread's alone until it ends.
pub(crate) struct Tx<'c> {
    pub(crate) conn: &'c Connection,
    /// The time of the whole transaction.
    pub(crate) now: Micros,
    memory: &'c mut Memory,
}

impl<'c> Tx<'c> {
    /// After BEGIN IMMEDIATE.
    pub(crate) fn begin(conn: &'c Connection, memory: &'c mut Memory, now: Micros) -> Outcome<Self> {
        let (next, key_changes, name_changes, lanes_upto, lanes_are_known): (i64, i64, i64, i64, bool) =
            conn.prepare_cached(BEGIN)?.query_one([], |row| {
                let known = memory.lanes.are(row.get_ref(4)?.as_blob()?);
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, known))
            })?;
        match next.cmp(&memory.next_sequence) {
            Ordering::Equal if lanes_are_known => {}
            // Another program was there. It may have gone on from an older state that was put back, as one of a version that does not tell of new names.
            Ordering::Equal | Ordering::Greater => {
                memory.lanes.forget();
                memory.names.forget();
            }
            // What was there was put back to an older state, which has other queues and lanes under their numbers.
            Ordering::Less => *memory = Memory::default(),
        }
        memory.lanes_missed = lanes_upto != next;
        (memory.next_sequence, memory.stored_sequence, memory.handed) = (next, next, 0);
        memory.names.refresh(name_changes);
        memory.keyed.refresh(conn, key_changes)?;
        Ok(Self { conn, now, memory })
    }

    /// Before COMMIT: writes what was collected. Returns the next sequence number when it moved, which is
    /// the sign that workers may have something to claim.
    pub(crate) fn finish(&mut self) -> Outcome<Option<i64>> {
        self.flush()?;
        let next = self.memory.next_sequence;
        if next == self.memory.stored_sequence {
            return Ok(None);
        }
        if self.memory.lanes_missed {
            self.conn.prepare_cached(LANES_MISSED)?.execute([self.memory.stored_sequence])?;
        }
        self.memory.lanes.write(self.conn)?;
        match self.memory.handed {
            0 => self.conn.prepare_cached(END)?.execute([next])?,
            handed => self.conn.prepare_cached(END_HANDED)?.execute([next, handed])?,
        };
        Ok((next - self.memory.stored_sequence > self.memory.handed).then_some(next))
    }

    /// Takes the next number of the one sequence.
    pub(crate) fn next_sequence(&mut self) -> Outcome<i64> {
        let sequence = self.memory.next_sequence;
        if sequence >= position::SEQUENCE_MAX {
            return Err(Fault::refused(ErrorKind::Internal, "the sequence of this database is used up"));
        }
        self.memory.next_sequence = sequence + 1;
        Ok(sequence)
    }

    /// A job was appended here under the number that was taken last, and not moved.
    pub(crate) fn note_lane(&mut self, pos: i64) -> Outcome<()> {
        self.memory.lanes.note(self.conn, pos)
    }

    /// Takes so many numbers for jobs that are handed out at once, which is nothing to tell workers. The first of them.
    pub(crate) fn hand_sequences(&mut self, count: i64) -> Outcome<i64> {
        let first = self.next_sequence()?;
        if first > position::SEQUENCE_MAX - count {
            return Err(Fault::refused(ErrorKind::Internal, "the sequence of this database is used up"));
        }
        self.memory.next_sequence = first + count;
        self.memory.handed += count;
        Ok(first)
    }

    /// What a number taken now would be: larger than that of every job so far.
    pub(crate) fn mark(&self) -> i64 {
        self.memory.next_sequence
    }

    /// Makes waiting workers look again though nothing was appended. The number is not used.
    pub(crate) fn wake(&mut self) -> Outcome<()> {
        let Memory { next_sequence, stored_sequence, handed, .. } = *self.memory;
        // They do for what was appended in this transaction, or once it is told.
        if next_sequence - stored_sequence > handed { Ok(()) } else { self.next_sequence().map(|_| ()) }
    }

    /// Writes something that changes nothing: only a transaction that writes waits for the disk, and so for all before it. Of an UPDATE to what
    /// is there already SQLite writes nothing.
    pub(crate) fn touch(&self) -> Outcome<()> {
        Ok(self.conn.pragma_update(None, "application_id", APPLICATION_ID)?)
    }

    /// Makes workers send a heartbeat and ask for their shares, once this is committed.
    pub(crate) fn request(&mut self) -> Outcome<()> {
        if !std::mem::replace(&mut self.memory.requested, true) {
            self.conn.prepare_cached("UPDATE log_state SET requests = requests + 1")?.execute([])?;
        }
        Ok(())
    }

    /// Counts `change` jobs more (or fewer) in a lane or its twin.
    pub(crate) fn count(&mut self, lane: i32, count: Count, change: i64) {
        self.memory.counts.entry(position::base(lane)).or_default()[count as usize] += change;
        if count == Count::Available {
            self.memory.keyed.arrive(lane, change);
        }
    }

    /// The keyed lanes.
    pub(crate) fn keyed(&mut self) -> &mut Keyed {
        &mut self.memory.keyed
    }

    /// Moves one job from one count to another.
    pub(crate) fn recount(&mut self, lane: i32, from: Count, to: Count) {
        self.count(lane, from, -1);
        self.count(lane, to, 1);
    }

    /// Writes what was collected of keys: before anything reads it.
    fn flush_keyed(&mut self) -> Outcome<()> {
        let Keyed { changes, arrived, .. } = &mut self.memory.keyed;
        let (changes, arrived) = (std::mem::take(changes), std::mem::take(arrived));
        let mut freed = false;
        for (queue, changes) in &changes {
            let ended_at = self.memory.keyed.has_rates(*queue).then_some(self.now);
            freed |= key_changes::write(self.conn, *queue, changes, ended_at)?;
        }
        for (lane, jobs) in arrived {
            if let Some(lane) = self.memory.keyed.lane(lane) {
                key_entry::enter(self.conn, &lane, jobs + key_entry::CHUNK)?;
            }
        }
        if freed { self.wake() } else { Ok(()) }
    }

    /// Writes the collected counts; before anything reads them.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        if !self.memory.keyed.is_empty() {
            self.flush_keyed()?;
        }
        if self.memory.counts.is_empty() {
            return Ok(());
        }
        let mut update = self.conn.prepare_cached(FLUSH)?;
        for (lane, [a, b, c, d, e, f, g, h]) in self.memory.counts.drain() {
            update.execute(params![lane, a, b, c, d, e, f, g, h])?;
        }
        Ok(())
    }

    /// The fence: fails unless the worker is live.
    pub(crate) fn fence(&self, worker: WorkerId) -> Outcome<()> {
        if self.is_live(worker)? { Ok(()) } else { Err(Fault::lease_lost(worker)) }
    }

    pub(crate) fn is_live(&self, worker: WorkerId) -> Outcome<bool> {
        let live = "SELECT 1 FROM worker WHERE id = ?1 AND ended_at IS NULL";
        Ok(self.conn.prepare_cached(live)?.exists([worker.0])?)
    }

    /// The queue's number; created on first use. Not to be kept beyond the transaction: see [`Names`].
    pub(crate) fn queue(&mut self, name: &str) -> Outcome<i64> {
        self.memory.names.queue(self.conn, name)
    }

    /// The number of a queue at a priority; created on first use. Not to be kept either.
    pub(crate) fn lane(&mut self, queue: i64, priority: i16) -> Outcome<i32> {
        let (lane, created) = self.memory.names.lane(self.conn, queue, priority)?;
        if created && self.memory.keyed.has_queue(queue) {
            self.memory.keyed.enter(self.conn, queue, Some(lane))?;
        }
        Ok(lane)
    }

    /// The queues that schedules name.
    pub(crate) fn scheduled_queues(&mut self) -> Outcome<&HashSet<String>> {
        self.memory.names.scheduled(self.conn)
    }

    /// After queues or lanes were removed.
    pub(crate) fn forget_names(&mut self) {
        self.memory.names.forget();
    }

    /// Keeps the error of a failed attempt.
    pub(crate) fn note_error(&self, job: JobId, attempt: u16, error: &str) -> Outcome<()> {
        let insert = "INSERT INTO attempt_error (job, attempt, at, error) VALUES (?1, ?2, ?3, ?4)";
        let error = windlass_core::Limits::storable_error(error);
        self.conn.prepare_cached(insert)?.execute(params![job.0, attempt, self.now, error])?;
        Ok(())
    }

    /// The same, unless the job has this very error.
    pub(crate) fn note_error_once(&self, job: JobId, attempt: u16, error: &str) -> Outcome<()> {
        let known =
            "SELECT EXISTS (SELECT 1 FROM attempt_error WHERE job = ?1 AND attempt = ?2 AND error = ?3)";
        let error = windlass_core::Limits::storable_error(error);
        let known =
            self.conn.prepare_cached(known)?.query_one(params![job.0, attempt, error], |row| row.get(0))?;
        if known { Ok(()) } else { self.note_error(job, attempt, &error) }
    }
}
