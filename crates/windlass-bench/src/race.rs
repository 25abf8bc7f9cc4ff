//! What is seen of jobs that race for unique keys: which were stored, and which ran.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use windlass::{EnqueuedUnique, JobId};

/// What the calls were told.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) asked: u64,
    /// The jobs that were stored.
    pub(crate) new: Vec<JobId>,
    /// Those that others were told have their key.
    holders: Vec<JobId>,
}

impl Stored {
    pub(crate) fn note(&mut self, answers: &[EnqueuedUnique]) {
        self.asked += answers.len() as u64;
        for answer in answers {
            match answer.conflict {
                None => self.new.push(answer.id),
                Some(_) => self.holders.push(answer.id),
            }
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.asked += other.asked;
        self.new.extend(other.new);
        self.holders.extend(other.holders);
    }
}

/// The jobs that ran.
pub(crate) struct Race {
    /// Whether a job of the key runs.
    running: Vec<AtomicBool>,
    /// How often one began while another of its key ran.
    together: AtomicU64,
    runs: Mutex<HashMap<JobId, u32>>,
}

impl Race {
    pub(crate) fn over(keys: u64) -> Self {
        let running = (0..keys).map(|_| AtomicBool::new(false)).collect();
        Self { running, together: AtomicU64::new(0), runs: Mutex::default() }
    }

    fn runs(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, u32>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One job, from its beginning to its end.
    pub(crate) fn run(&self, key: u64, id: JobId) {
        let Some(running) = self.running.get(key as usize) else { return };
        if running.swap(true, Ordering::AcqRel) {
            self.together.fetch_add(1, Ordering::Relaxed);
        }
        *self.runs().entry(id).or_default() += 1;
        running.store(false, Ordering::Release);
    }

    /// What was doubled or lost, if anything was.
    pub(crate) fn verify(&self, stored: &Stored) -> Result<(), String> {
        let runs = self.runs();
        let lost = stored.new.iter().filter(|id| !runs.contains_key(id)).count();
        let doubled = runs.values().filter(|count| **count > 1).count();
        let new: HashSet<&JobId> = stored.new.iter().collect();
        let unknown = runs.keys().filter(|id| !new.contains(id)).count();
        let together = self.together.load(Ordering::Relaxed);
        let untrue = stored.holders.iter().filter(|id| !runs.contains_key(id)).count();
        if [lost, doubled, unknown, untrue] == [0; 4] && together == 0 {
            return Ok(());
        }
        Err(format!(
            "of {} jobs that were stored {lost} did not run and {doubled} ran twice; {unknown} ran that nobody was told of, {together} beside \
             another of their key, and {untrue} calls were told of jobs that never were",
            stored.new.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::Conflict;

    fn told(new: &[i64], holders: &[i64]) -> Stored {
        let mut stored = Stored::default();
        let answer = |id: &i64, conflict| EnqueuedUnique { id: JobId(*id), conflict };
        stored.note(&new.iter().map(|id| answer(id, None)).collect::<Vec<_>>());
        stored.note(&holders.iter().map(|id| answer(id, Some(Conflict::Kept))).collect::<Vec<_>>());
        stored
    }

    #[test]
    fn what_is_doubled_or_lost_is_found() {
        let race = Race::over(2);
        race.run(0, JobId(1));
        race.run(1, JobId(2));
        assert_eq!(race.verify(&told(&[1, 2], &[1, 1])), Ok(()));
        for (stored, words) in [
            (told(&[1, 2, 3], &[]), "1 did not run"),
            (told(&[1], &[]), "1 ran that nobody was told of"),
            (told(&[1, 2], &[4]), "1 calls were told"),
        ] {
            assert!(race.verify(&stored).unwrap_err().contains(words));
        }
        race.run(0, JobId(1));
        assert!(race.verify(&told(&[1, 2], &[])).unwrap_err().contains("1 ran twice"));
        race.running[0].store(true, Ordering::Release);
        race.run(0, JobId(3));
        assert!(race.verify(&told(&[1, 2, 3], &[])).unwrap_err().contains("1 beside another"));
    }
}
