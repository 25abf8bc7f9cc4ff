//! The writer: one thread that owns the connection that writes, and commits in groups.
//!
//! Whatever waits is run in one transaction and paid for with one fsync. When a command fails after it has
//! written something, or the disk is full, the transaction is rolled back and every command of the group
//! runs again in a transaction of its own: one failing command never spoils the others. Commands are
//! therefore repeatable closures. That costs nothing while all goes well, unlike a savepoint per command.

use crate::{
    Clock, Synchronous,
    claim_reply::UndeliveredClaims,
    command::{BoxCommand, Command},
    connect::set_synchronous,
    error::{Fault, Outcome},
    give_back::GiveBack,
    moved::{self, OpenedFiles},
    turns::Turns,
    tx::{Memory, Tx},
    wakeup::Signal,
    wal::Wal,
};
use rusqlite::Connection;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use windlass_core::{Error, Result};

/// The most commands of one transaction.
const GROUP_MAX: usize = 512;
/// A transaction takes no further command after this long, so that latency stays bounded.
const GROUP_TIME: Duration = Duration::from_millis(10);
/// What nobody waits for and failed is not repeated before: it takes what stands in one transaction with it along.
const PAUSE: Duration = Duration::from_secs(1);

/// The writer's own state.
pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) file: Arc<OpenedFiles>,
    pub(crate) clock: Clock,
    pub(crate) synchronous: Synchronous,
    pub(crate) signal: Arc<Signal>,
    pub(crate) undelivered: Arc<UndeliveredClaims>,
    pub(crate) wal: Wal,
    pub(crate) turns: Turns,
    pub(crate) memory: Memory,
    /// What nobody waits for and could not be done yet.
    pub(crate) later: Vec<BoxCommand>,
    /// And not before.
    pub(crate) later_at: Option<Instant>,
    /// What the connection is set to.
    pub(crate) current: Synchronous,
    /// Whether it has committed what must survive a power cut.
    pub(crate) is_durable: bool,
}

impl Writer {
    /// Serves until every sender is gone, and closes the connection.
    pub(crate) fn serve(mut self, mut inbox: mpsc::Receiver<BoxCommand>) {
        let mut waiting = VecDeque::with_capacity(GROUP_MAX);
        while let Some(first) = waiting.pop_front().or_else(|| inbox.blocking_recv()) {
            waiting.push_front(first);
            if !self.later.is_empty() && self.later_at.is_none_or(|at| at <= Instant::now()) {
                self.later.drain(..).for_each(|command| waiting.push_front(command));
            }
            while waiting.len() < GROUP_MAX
                && let Ok(next) = inbox.try_recv()
            {
                waiting.push_back(next);
            }
            waiting.extend(GiveBack::of(&self.undelivered));
            waiting.retain(|command| !command.abandoned());
            self.commit_group(&mut waiting);
            // Every caller has its answer already, and a failure here comes up again with the next commit.
            if let Err(fault) = self.wal.bound(&mut self.conn, &self.file, &self.turns) {
                tracing::warn!(error = %fault.into_error(), "cannot shorten the write-ahead log");
            }
            // What is left of large claims, for which nobody comes.
            waiting.extend(GiveBack::of(&self.undelivered));
        }
        // Nobody comes any more after whom it could be done. What fails now is left to who rescues its worker.
        let mut left: VecDeque<_> = std::mem::take(&mut self.later).into();
        while !left.is_empty() {
            self.commit_group(&mut left);
            if self.later.is_empty() {
                left.extend(GiveBack::of(&self.undelivered));
            }
        }
        // What others began instead is theirs.
        if (self.file.replaced() || self.wal.replaced())
            && let Err(fault) = moved::leave_log(&self.conn)
        {
            tracing::error!(error = %fault.into_error(), "cannot leave the log of another process alone");
        }
    }

    /// Runs what waits in one transaction, as much as fits into its time.
    pub(crate) fn commit_group(&mut self, waiting: &mut VecDeque<BoxCommand>) {
        if waiting.is_empty() {
            return;
        }
        let durable = waiting.iter().any(|command| command.durable());
        let mut group: Vec<BoxCommand> = Vec::with_capacity(waiting.len());
        let attempt = self.transaction(durable, |tx| {
            // Not before: it may have waited for the file.
            let began = Instant::now();
            while began.elapsed() < GROUP_TIME || group.is_empty() {
                let Some(mut command) = waiting.pop_front() else { break };
                let spoils = !runs(&mut *command, tx);
                group.push(command);
                if spoils {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        match attempt {
            Ok(true) => self.answer(group, None),
            Ok(false) if group.len() == 1 => self.answer(group, None),
            Ok(false) => self.commit_each(group, waiting),
            Err((error, certain)) if certain && group.len() > 1 => {
                tracing::debug!(%error, "a group could not commit; its commands run one by one");
                self.commit_each(group, waiting);
            }
            Err((error, _)) if group.is_empty() => {
                // Without BEGIN no command was taken; all that wait get the reason.
                self.answer(waiting.drain(..).collect(), Some(&error));
                self.later_at = None;
            }
            Err((error, _)) => self.answer(group, Some(&error)),
        }
    }

    /// Runs the commands of a group one by one. Where nobody can begin, those that are left get the reason, as do those after the group: each would
    /// wait for the file as long as the one before it.
    fn commit_each(&mut self, group: Vec<BoxCommand>, waiting: &mut VecDeque<BoxCommand>) {
        let mut left = group.into_iter();
        while let Some(command) = left.next() {
            if let Some(error) = self.commit_alone(command) {
                self.answer(left.by_ref().chain(waiting.drain(..)).collect(), Some(&error));
            }
        }
    }

    /// Why it could not begin, if it could not.
    pub(crate) fn commit_alone(&mut self, mut command: BoxCommand) -> Option<Error> {
        let (durable, mut began) = (command.durable(), false);
        let done = self.transaction(durable, |tx| {
            began = true;
            Ok(runs(&mut *command, tx))
        });
        let stopped = done.err().map(|(error, _)| error);
        self.answer(vec![command], stopped.as_ref());
        stopped.filter(|_| !began)
    }

    /// Answers those of one transaction, which was committed unless this stopped it. What nobody waits for and is not done is kept.
    pub(crate) fn answer(&mut self, commands: Vec<BoxCommand>, stopped: Option<&Error>) {
        for command in commands {
            if command.unattended() && (stopped.is_some() || command.fault().is_some()) {
                self.later_at = Some(Instant::now() + PAUSE);
                self.later.push(command);
            } else {
                command.answer(stopped);
            }
        }
    }

    /// One transaction around `work`, which says whether to commit. The error's flag: the transaction
    /// certainly did not happen, for want of room.
    pub(crate) fn transaction(
        &mut self,
        durable: bool,
        work: impl FnOnce(&mut Tx<'_>) -> Outcome<bool>,
    ) -> Result<bool, (Error, bool)> {
        let begun = self.begin(durable);
        let had_since = Instant::now();
        let done = self.carry_out(begun, durable, work);
        self.turns.had(had_since.elapsed());
        done
    }

    fn carry_out(
        &mut self,
        begun: Outcome<()>,
        durable: bool,
        work: impl FnOnce(&mut Tx<'_>) -> Outcome<bool>,
    ) -> Result<bool, (Error, bool)> {
        // Who had the file before may have been killed before what it committed was on the disk. What an answer says is there already must be, too.
        let first = durable && !self.is_durable;
        let done = begun.and_then(|()| {
            let mut tx = Tx::begin(&self.conn, &mut self.memory, self.clock.now())?;
            if !work(&mut tx)? {
                return Ok((false, None));
            }
            if first {
                tx.touch()?;
            }
            tx.finish().map(|next| (true, next))
        });
        match done {
            Ok((true, next)) => match self.execute("COMMIT") {
                Ok(()) => {
                    self.is_durable |= durable;
                    next.inspect(|&next| self.signal.appended(next));
                    if std::mem::take(&mut self.memory.requested) {
                        self.signal.requested();
                    }
                    Ok(true)
                }
                Err(fault) => {
                    self.roll_back();
                    let full = fault.is_full();
                    Err((fault.at_commit(), full))
                }
            },
            Ok((false, _)) => {
                self.roll_back();
                Ok(false)
            }
            Err(fault) => {
                self.roll_back();
                let full = fault.is_full();
                Err((fault.into_error(), full))
            }
        }
    }

    fn begin(&mut self, durable: bool) -> Outcome<()> {
        self.file.check()?;
        self.wal.check()?;
        let wanted = if durable { self.synchronous } else { Synchronous::Normal };
        if wanted != self.current {
            set_synchronous(&self.conn, wanted)?;
            self.current = wanted;
        }
        self.turns.let_others_go_first();
        let begun = self.execute("BEGIN IMMEDIATE");
        self.turns.waited();
        begun?;
        self.wal.begun();
        Ok(())
    }

    fn execute(&self, sql: &str) -> Outcome<()> {
        self.conn.prepare_cached(sql)?.raw_execute()?;
        Ok(())
    }

    fn roll_back(&mut self) {
        self.memory = Memory::default();
        // After some errors SQLite has rolled back by itself.
        if !self.conn.is_autocommit()
            && let Err(fault) = self.execute("ROLLBACK")
        {
            tracing::error!(error = %fault.into_error(), "cannot roll back");
        }
    }
}

/// Runs a command. Whether the transaction may be committed: who refuses and wrote nothing says what there is, which others may have put there.
fn runs(command: &mut dyn Command, tx: &mut Tx<'_>) -> bool {
    let before = tx.conn.total_changes();
    command.run(tx)
        || !command.fault().is_some_and(Fault::is_full)
            && tx.conn.total_changes() == before
            && !tx.conn.is_autocommit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqliteOptions, command::Task, connect, failures::writer, migrate};
    use jiff::Timestamp;
    use rusqlite::{
        ffi,
        trace::{TraceEvent, TraceEventCodes},
    };
    use std::{
        sync::atomic::{AtomicBool, AtomicI64, Ordering},
        thread,
    };
    use windlass_core::ErrorKind;

    static WAITS: AtomicBool = AtomicBool::new(false);

    /// SQLite calls it while somebody else has the file, and does not go on before it returns.
    fn waits(_: i32) -> bool {
        WAITS.store(true, Ordering::SeqCst);
        thread::sleep(GROUP_TIME * 2);
        true
    }

    /// For how long others had the file says nothing about how long a transaction may take. The clock is asked once in each.
    #[test]
    fn what_waited_for_the_file_is_committed_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let options = SqliteOptions::default();
        let mut conn = connect::writer(&path, &options).map_err(Fault::into_error).unwrap();
        migrate::migrate(&conn).map_err(Fault::into_error).unwrap();
        conn.busy_handler(Some(waits)).unwrap();
        let transactions = AtomicI64::new(0);
        let clock = Clock::new(move || {
            Timestamp::from_microsecond(transactions.fetch_add(1, Ordering::SeqCst)).unwrap()
        });
        let writer = writer(&path, conn, clock);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (calls, inbox) = mpsc::channel::<BoxCommand>(10);
        let answers: Vec<_> = (0..10)
            .map(|_| {
                let (task, answer) = Task::new(false, |tx: &mut Tx<'_>| Ok(tx.now));
                calls.try_send(task).unwrap_or_else(|_| panic!("there is room"));
                answer
            })
            .collect();
        drop(calls);
        let serving = thread::spawn(move || writer.serve(inbox));
        while !WAITS.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        other.execute_batch("ROLLBACK").unwrap();
        serving.join().unwrap();
        let times = answers.into_iter().map(|answer| answer.blocking_recv().unwrap().unwrap());
        assert_eq!(times.take(2).collect::<Vec<_>>(), [0, 0], "the first two of ten");
    }

    /// Though not all of it fits into one transaction.
    #[test]
    fn all_that_nobody_waits_for_is_done_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let conn = connect::writer(&path, &SqliteOptions::default()).map_err(Fault::into_error).unwrap();
        migrate::migrate(&conn).map_err(Fault::into_error).unwrap();
        let mut writer = writer(&path, conn, Clock::default());
        let done = Arc::new(AtomicI64::new(0));
        for _ in 0..3 {
            let ran = Arc::clone(&done);
            writer.later.push(Task::<(), _>::unattended(move |_: &mut Tx<'_>| {
                let began = Instant::now();
                while began.elapsed() < GROUP_TIME {
                    thread::yield_now();
                }
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }));
        }
        let (calls, inbox) = mpsc::channel::<BoxCommand>(1);
        drop(calls);
        writer.serve(inbox);
        assert_eq!(done.load(Ordering::SeqCst), 3);
    }

    /// Commands of a group that cannot commit run one by one: each of these transactions waits for the file anew.
    #[test]
    fn what_nobody_waits_for_is_kept_where_it_is_alone_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let options = SqliteOptions { busy_timeout: Duration::ZERO, ..SqliteOptions::default() };
        let conn = connect::writer(&path, &options).map_err(Fault::into_error).unwrap();
        migrate::migrate(&conn).map_err(Fault::into_error).unwrap();
        let mut writer = writer(&path, conn, Clock::default());
        let done = Arc::new(AtomicI64::new(0));
        let ran = Arc::clone(&done);
        let task = Task::<(), _>::unattended(move |_: &mut Tx<'_>| {
            ran.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        writer.commit_alone(task);
        assert_eq!((done.load(Ordering::SeqCst), writer.later.len()), (0, 1));
        other.execute_batch("ROLLBACK").unwrap();
        let kept = writer.later.remove(0);
        writer.commit_alone(kept);
        assert_eq!((done.load(Ordering::SeqCst), writer.later.len()), (1, 0));
    }

    /// Another process takes the file when a group was rolled back. Heartbeats come after those of a group.
    #[test]
    fn where_nobody_can_begin_the_others_do_not_wait_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let mut conn = connect::writer(&path, &SqliteOptions::default()).map_err(Fault::into_error).unwrap();
        migrate::migrate(&conn).map_err(Fault::into_error).unwrap();
        let waits = Arc::new(AtomicI64::new(0));
        let waited = Arc::clone(&waits);
        conn.busy_handler(Some(move |_: i32| {
            waited.fetch_add(1, Ordering::SeqCst);
            false
        }))
        .unwrap();
        let other = Connection::open(&path).unwrap();
        let take = move |event: TraceEvent<'_>| {
            if matches!(event, TraceEvent::Profile(statement, _) if statement.sql() == "ROLLBACK") {
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
            }
        };
        conn.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(take)).unwrap();
        let mut writer = writer(&path, conn, Clock::default());
        let full = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
        let (mut waiting, mut answers) = (VecDeque::<BoxCommand>::new(), Vec::new());
        for spoils in [false, false, true, false] {
            let (task, answer) =
                Task::new(false, move |_: &mut Tx<'_>| if spoils { Err(full().into()) } else { Ok(()) });
            waiting.push_back(task);
            answers.push(answer);
        }
        writer.commit_group(&mut waiting);
        assert_eq!((waits.load(Ordering::SeqCst), waiting.len()), (1, 0));
        let kinds = answers.into_iter().map(|answer| answer.blocking_recv().unwrap().unwrap_err().kind());
        assert_eq!(kinds.collect::<Vec<_>>(), [ErrorKind::Unavailable; 4]);
    }
}
