//! Turns between all that write to one file.
//!
//! SQLite's lock is nobody's in particular: who waits for it looks again now and then, and who writes one transaction after the other
//! has it again before anybody looks. Beside a worker that was never idle, others waited 60 ms for it at p50, and up to 375 ms. So who
//! waits says so, by a locked file beside the database, which is there for as long as somebody waits; and who had the file for long lets
//! those who wait go first. It takes no part in what SQLite locks. Where it cannot be made everything is as SQLite has it.

use crate::moved::beside;
use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

/// Who had the file for so long, in all, looks whether others wait.
const TURN: Duration = Duration::from_millis(10);
/// It waits for them so long at most: some times as long as those who wait sleep between two looks. One of them may have been stopped.
const COURTESY: Duration = Duration::from_millis(4);
/// And looks so often whether they still wait.
const LOOK: Duration = Duration::from_micros(100);

/// The turns of one writer.
pub(crate) struct Turns {
    waiting: Arc<Waiting>,
    /// For how long it had the file since it last let others go first.
    had: Duration,
}

/// What others see while a writer waits.
pub(crate) struct Waiting {
    path: PathBuf,
    /// Locked together with others who wait. One that was killed leaves the file there, and no lock.
    shown: Mutex<Option<File>>,
}

impl Turns {
    /// Of the database at this path.
    pub(crate) fn at(database: &Path) -> Self {
        let waiting = Waiting { path: beside(database, "-turn"), shown: Mutex::new(None) };
        Self { waiting: Arc::new(waiting), had: Duration::ZERO }
    }

    /// What its connection calls each time that it looks in vain whether it can begin.
    pub(crate) fn on_wait(&self) -> impl FnMut() + Send + 'static {
        let waiting = Arc::clone(&self.waiting);
        move || waiting.show()
    }

    /// It has begun, or does not wait any more.
    pub(crate) fn waited(&self) {
        self.waiting.hide();
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
        // Each time anew: who waited last removed it, and it may be another one now.
        let Ok(file) = File::open(&self.waiting.path) else { return false };
        matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    }
}

impl Waiting {
    fn show(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one that does not wait any more may have removed it.
        if shown.is_some() && self.path.exists() {
            return;
        }
        let file = File::options().create(true).append(true).open(&self.path).ok();
        // Who looks has it to itself for a moment: then the next time.
        *shown = file.filter(|file| file.try_lock_shared().is_ok());
    }

    fn hide(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
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
        let (folder, waits, had) = two();
        assert!(!had.others_wait());
        waits.on_wait()();
        assert!(had.others_wait());
        waits.waited();
        assert!(!had.others_wait());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn who_waits_is_seen_though_another_does_not_any_more() {
        let (folder, waits, had) = two();
        let another = Turns::at(&folder.path().join("jobs.db"));
        let mut look = waits.on_wait();
        look();
        another.on_wait()();
        another.waited();
        look();
        assert!(had.others_wait());
    }

    #[test]
    fn one_that_was_killed_does_not_wait() {
        let (folder, waits, had) = two();
        fs::write(folder.path().join("jobs.db-turn"), "").unwrap();
        assert!(!had.others_wait());
        waits.on_wait()();
        assert!(had.others_wait());
    }

    #[test]
    fn who_had_it_for_long_goes_on_when_nobody_waits_any_more() {
        let (_folder, waits, mut had) = two();
        had.had(TURN);
        waits.on_wait()();
        let (ended, end) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                had.let_others_go_first();
                ended.send(()).unwrap();
            });
            waits.waited();
            end.recv().unwrap();
        });
        assert_eq!(had.had, Duration::ZERO);
    }

    #[test]
    fn one_that_waits_for_ever_holds_up_nobody_else() {
        let (_folder, waits, mut had) = two();
        waits.on_wait()();
        had.had(TURN);
        had.let_others_go_first();
        assert!(had.others_wait());
    }

    #[test]
    fn nobody_waits_for_those_who_cannot_say_so() {
        let mut turns = Turns::at(Path::new("/nowhere/at/all/jobs.db"));
        turns.on_wait()();
        turns.had(TURN);
        turns.let_others_go_first();
        assert!(!turns.others_wait());
        turns.waited();
    }

    fn open() -> (tempfile::TempDir, Writer, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let mut conn = connect::writer(&path, &SqliteOptions::default()).unwrap_or_else(|_| panic!("opens"));
        migrate::migrate(&conn).unwrap_or_else(|_| panic!("a new file"));
        let turns = Turns::at(&path);
        connect::set_patience(&mut conn, Duration::from_secs(60), turns.on_wait())
            .unwrap_or_else(|_| panic!("waits"));
        let other = Connection::open(&path).unwrap();
        (folder, Writer { turns, ..writer(&path, conn, Clock::default()) }, other)
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
