//! Turns between all that write to one file.
//!
//! SQLite's lock is nobody's in particular: who waits for it looks again now and then, and who writes one transaction after the other
//! has it again before anybody looks. Beside a worker that was never idle, others waited 60 ms for it at p50, and up to 375 ms. So who
//! waits says so, by a shared `flock` of the folder, which takes no part in what SQLite locks, leaves nothing behind and ends with its
//! process; and who had the file for long lets those who wait go first. Where folders cannot be locked everything is as SQLite has it.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

/// Who had the file for so long, in all, looks whether others wait.
const TURN: Duration = Duration::from_millis(10);
/// It waits for them so long at most: some times as long as those who wait sleep between two looks. One of them may have been stopped.
const COURTESY: Duration = Duration::from_millis(4);
/// And looks so often whether they still wait.
const LOOK: Duration = Duration::from_micros(100);
/// Who looks whether others wait has the folder's lock to itself for a moment, so it is tried some times.
const TRIES: usize = 3;

/// The turns of one writer.
pub(crate) struct Turns {
    folder: Option<File>,
    /// For how long it had the file since it last let others go first.
    had: Duration,
}

/// Others see that somebody waits, as long as this lives.
pub(crate) struct Waiting<'t>(Option<&'t File>);

impl Turns {
    /// Of the file at this path.
    pub(crate) fn at(path: &Path) -> Self {
        Self { folder: path.parent().and_then(|folder| File::open(folder).ok()), had: Duration::ZERO }
    }

    /// Says to others that somebody waits for the file.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        let folder = self.folder.as_ref();
        Waiting(folder.filter(|folder| (0..TRIES).any(|_| folder.try_lock_shared().is_ok())))
    }

    /// It had the file for so long.
    pub(crate) fn had(&mut self, time: Duration) {
        self.had += time;
    }

    /// Lets those who wait have the file before this, unless it had it for a short time only.
    pub(crate) fn let_others_go_first(&mut self) {
        if self.had < TURN {
            return;
        }
        self.had = Duration::ZERO;
        let began = Instant::now();
        while self.others_wait() && began.elapsed() < COURTESY {
            sleep(LOOK);
        }
    }

    fn others_wait(&self) -> bool {
        let Some(folder) = &self.folder else { return false };
        match folder.try_lock() {
            Ok(()) => folder.unlock().is_err(),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => false,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // It ends with the process at the latest.
        self.0.map(File::unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, SqliteOptions, connect, failures::writer, migrate, writer::Writer};
    use rusqlite::Connection;
    use std::{sync::mpsc, thread};

    fn two() -> (tempfile::TempDir, Turns, Turns) {
        let folder = tempfile::tempdir().unwrap();
        let turns = || Turns::at(&folder.path().join("jobs.db"));
        let two = (turns(), turns());
        (folder, two.0, two.1)
    }

    #[test]
    fn who_waits_is_seen_until_it_does_not_any_more() {
        let (_folder, waits, had) = two();
        assert!(!had.others_wait());
        let waiting = waits.wait();
        assert!(had.others_wait());
        drop(waiting);
        assert!(!had.others_wait());
    }

    #[test]
    fn who_had_it_for_long_goes_on_when_nobody_waits_any_more() {
        let (_folder, waits, mut had) = two();
        had.had(TURN);
        let waiting = waits.wait();
        let (ended, end) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                had.let_others_go_first();
                ended.send(()).unwrap();
            });
            drop(waiting);
            end.recv().unwrap();
        });
        assert_eq!(had.had, Duration::ZERO);
    }

    #[test]
    fn one_that_waits_for_ever_holds_up_nobody_else() {
        let (_folder, waits, mut had) = two();
        let _waiting = waits.wait();
        had.had(TURN);
        had.let_others_go_first();
        assert!(had.others_wait());
    }

    #[test]
    fn nobody_waits_for_those_who_cannot_say_so() {
        let mut turns = Turns::at(Path::new("/nowhere/at/all/jobs.db"));
        drop(turns.wait());
        turns.had(TURN);
        turns.let_others_go_first();
        assert!(!turns.others_wait());
    }

    fn open() -> (tempfile::TempDir, Writer, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let conn = connect::writer(&path, &SqliteOptions::default()).unwrap_or_else(|_| panic!("opens"));
        migrate::migrate(&conn).unwrap_or_else(|_| panic!("a new file"));
        let writer = writer(&path, conn, Clock::default());
        let other = Connection::open(&path).unwrap();
        (folder, writer, other)
    }

    #[test]
    fn a_writer_that_cannot_begin_says_that_it_waits() {
        let (folder, mut writer, other) = open();
        let turns = Turns::at(&folder.path().join("jobs.db"));
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        thread::scope(|scope| {
            let begins = scope.spawn(|| writer.transaction(false, |_| Ok(true)).unwrap());
            while !turns.others_wait() {
                thread::yield_now();
            }
            other.execute_batch("ROLLBACK").unwrap();
            begins.join().unwrap();
        });
        assert!(!turns.others_wait());
    }

    #[test]
    fn the_time_of_a_transaction_counts_until_others_could_go_first() {
        let (_folder, mut writer, _) = open();
        let long = |_: &mut crate::tx::Tx<'_>| {
            sleep(10 * TURN);
            Ok(true)
        };
        writer.transaction(false, long).unwrap();
        assert!(writer.turns.had >= 10 * TURN);
        let began = Instant::now();
        writer.transaction(false, |_| Ok(true)).unwrap();
        assert!(writer.turns.had <= began.elapsed(), "of this one alone");
    }
}
