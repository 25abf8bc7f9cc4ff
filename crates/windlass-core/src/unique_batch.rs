//! A batch in which some jobs are unique, as a store takes it: no two of its jobs have one key.

use crate::{
    Conflict, EnqueuedUnique, Error, ErrorKind, JobId, NewJob, Result, UniqueKey, UniqueUntil,
    attributes::UniqueMark, unique::OnConflict,
};
use std::collections::{HashMap, hash_map::Entry};

/// The jobs of one call without those that would only meet another one of the same call.
///
/// The later of two jobs with one key follows its own rule: with `Replace` it stands for both, with `Error` the call is
/// refused, else the first stands for both, and extends its window if one of them does. Where another job has the key, one
/// that refuses the call goes before all rules of later ones.
#[derive(Debug)]
pub struct UniqueBatch {
    /// The jobs that stand for all; the attributes of a unique one carry its key, for a retry.
    pub jobs: Vec<NewJob>,
    /// The key of each of them that is unique.
    pub keys: Vec<Option<UniqueKey>>,
    /// For each job of the call.
    places: Vec<Place>,
}

/// How one job of a call goes into the batch.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Which of [`UniqueBatch::jobs`] stands for it.
    job: usize,
    /// Whether it is the first of the call with its key.
    first: bool,
    /// What it does to a job that has its key.
    does: Conflict,
}

impl UniqueBatch {
    /// Whether any of these jobs is unique, so that [`JobStore::enqueue_unique`](crate::JobStore::enqueue_unique) has to store them.
    pub fn is_needed(jobs: &[NewJob]) -> bool {
        jobs.iter().any(|job| job.unique().is_some())
    }

    /// Refuses unique jobs under an idempotency key: which of the two would say what a repeated call finds?
    ///
    /// # Errors
    /// `invalid_option`.
    pub fn refuse_under_idempotency_key(jobs: &[NewJob]) -> Result<()> {
        if !Self::is_needed(jobs) {
            return Ok(());
        }
        let message = "unique jobs take no idempotency key: enqueue them without one, a repeated call finds them by their own key";
        Err(Error::new(ErrorKind::InvalidOption, message))
    }

    /// Sorts a batch out.
    ///
    /// # Errors
    /// As [`UniqueKey::of`], and `unique_conflict`, with the job's place in the batch.
    pub fn of(jobs: &[NewJob]) -> Result<Self> {
        let mut batch = Self { jobs: Vec::with_capacity(jobs.len()), keys: Vec::new(), places: Vec::new() };
        let mut known = HashMap::new();
        for (index, job) in jobs.iter().enumerate() {
            let place = batch.add(job, &mut known).map_err(|error| error.of_job(index, jobs.len()))?;
            batch.places.push(place);
        }
        Ok(batch)
    }

    fn add(&mut self, job: &NewJob, known: &mut HashMap<UniqueKey, usize>) -> Result<Place> {
        let (key, next) = (UniqueKey::of(job)?, self.jobs.len());
        let rule = rule_of(job);
        let does = match rule {
            OnConflict::Keep | OnConflict::Error => Conflict::Kept,
            OnConflict::Extend => Conflict::Extended,
            OnConflict::Replace { .. } => Conflict::Replaced,
        };
        let Some((key, place)) = key.and_then(|key| Some((key, first_with(known, key, next)?))) else {
            self.jobs.push(key.map_or_else(|| job.clone(), |key| marked(job, key)));
            self.keys.push(key);
            return Ok(Place { job: next, first: true, does });
        };
        if rule == OnConflict::Error {
            let message = "another job of the same call has its unique key";
            return Err(Error::new(ErrorKind::UniqueConflict, message));
        }
        let stands = &self.jobs[place];
        self.jobs[place] = match (rule_of(stands), rule) {
            (OnConflict::Error, OnConflict::Replace { .. }) => ruled(marked(job, key), OnConflict::Error),
            (_, OnConflict::Replace { .. }) => marked(job, key),
            (OnConflict::Keep, OnConflict::Extend) if until(stands) == until(job) => {
                ruled(stands.clone(), OnConflict::Extend)
            }
            _ => return Ok(Place { job: place, first: false, does }),
        };
        Ok(Place { job: place, first: false, does })
    }

    /// The refusal of one of [`Self::jobs`] whose key another job has.
    pub fn conflict(&self, place: usize, holder: JobId) -> Error {
        let error = Error::new(ErrorKind::UniqueConflict, format!("job {holder} has its unique key"));
        match self.places.iter().position(|of| of.job == place) {
            Some(index) => error.of_job(index, self.places.len()),
            None => error,
        }
    }

    /// The reply for each job of the call, from that for each of [`Self::jobs`].
    pub fn replies(&self, stored: &[EnqueuedUnique]) -> Vec<EnqueuedUnique> {
        let reply = |place: &Place| {
            let EnqueuedUnique { id, conflict } = stored[place.job];
            let conflict = match conflict {
                None if place.first => None,
                None => Some(place.does),
                Some(done) if done == place.does => Some(done),
                // What the job that stands for it did, it did not do itself.
                Some(_) => Some(Conflict::Kept),
            };
            EnqueuedUnique { id, conflict }
        };
        self.places.iter().map(reply).collect()
    }
}

fn rule_of(job: &NewJob) -> OnConflict {
    job.unique().map_or(OnConflict::Keep, |unique| unique.conflict_rule())
}

fn until(job: &NewJob) -> Option<UniqueUntil> {
    job.unique().map(|unique| unique.until())
}

/// The job with another rule.
fn ruled(job: NewJob, rule: OnConflict) -> NewJob {
    match job.unique().cloned() {
        Some(unique) => job.with_unique(unique.on_conflict(rule)),
        None => job,
    }
}

/// Where the key was seen before; notes that it is seen here if it was not.
fn first_with(known: &mut HashMap<UniqueKey, usize>, key: UniqueKey, here: usize) -> Option<usize> {
    match known.entry(key) {
        Entry::Occupied(seen) => Some(*seen.get()),
        Entry::Vacant(new) => {
            new.insert(here);
            None
        }
    }
}

/// The job with what a retry of it has to know. A window ends by itself, so it leaves no mark.
fn marked(job: &NewJob, key: UniqueKey) -> NewJob {
    let until = match until(job) {
        Some(UniqueUntil::Started) => "started",
        Some(UniqueUntil::Finished) => "finished",
        _ => return job.clone(),
    };
    job.clone().with_mark(UniqueMark { key, until: until.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, Unique};

    fn job(n: usize, rule: OnConflict) -> NewJob {
        NewJob::new("k", Args::of(&n).unwrap()).with_unique(Unique::by_key("one").on_conflict(rule))
    }

    #[test]
    fn one_job_stands_for_those_with_its_key() {
        let plain = NewJob::new("k", Args::of(&0).unwrap());
        let replace = OnConflict::Replace { max_wait: None };
        let batch = UniqueBatch::of(&[
            plain.clone(),
            job(1, OnConflict::Error),
            job(2, OnConflict::Keep),
            plain,
            job(3, replace),
            job(4, OnConflict::Keep),
        ]);
        let batch = batch.unwrap();
        let args: Vec<&str> = batch.jobs.iter().map(|job| job.args().as_str()).collect();
        assert_eq!(args, ["0", "3", "0"]);
        let is_unique: Vec<bool> = batch.keys.iter().map(Option::is_some).collect();
        assert_eq!(is_unique, [false, true, false]);
        let stored = |id, conflict| EnqueuedUnique { id: JobId(id), conflict };
        let all = batch.replies(&[stored(7, None), stored(8, None), stored(9, None)]);
        let kept = Some(Conflict::Kept);
        let expected = [(7, None), (8, None), (8, kept), (9, None), (8, Some(Conflict::Replaced)), (8, kept)];
        assert_eq!(all, expected.map(|(id, conflict)| stored(id, conflict)));
        let all = batch.replies(&[stored(7, None), stored(3, kept), stored(9, None)]);
        assert!(all.iter().all(|reply| (reply.id == JobId(3)) == (reply.conflict == kept)), "{all:?}");
    }

    #[test]
    fn an_error_names_the_job() {
        let error = UniqueBatch::of(&[job(1, OnConflict::Keep), job(2, OnConflict::Error)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UniqueConflict);
        assert!(error.to_string().starts_with("job 1 of 2: another job of the same call"), "{error}");
    }
}
