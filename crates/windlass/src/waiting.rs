mod look;

use look::{Looking, look};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::{Instant, timeout},
};
use windlass_core::{Ended, Error, ErrorKind, JobId, JobRecord, Result, Store};

/// The first and the longest pause between two looks at the jobs that are waited for, while no hint comes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// How long a client that is closed waits for the end of the task, which may be of a runtime that does not run.
const LONGEST_END: Duration = Duration::from_secs(1);

type Told = oneshot::Sender<Result<JobRecord>>;

/// Everybody in this process who waits for jobs of one store. One task looks for all of them: when the store hints that
/// jobs ended, and from time to time.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Somebody began to wait.
    more: Notify,
}

#[derive(Default)]
struct State {
    jobs: HashMap<JobId, Waited>,
    /// Whether the task runs.
    looking: bool,
    task: Option<JoinHandle<()>>,
}

impl State {
    /// Whoever waits for the job, which is not waited for any more.
    fn take(&mut self, job: JobId) -> Vec<Told> {
        self.jobs.remove(&job).map(|job| job.told).unwrap_or_default()
    }
}

/// A job that is waited for.
#[derive(Default)]
struct Waited {
    told: Vec<Told>,
    /// When to look at it by itself, and the pause after that. Nothing once that pause is the longest: then it is looked at with all others.
    soon: Option<(Instant, Duration)>,
}

impl Waited {
    fn is_due(&self, now: Instant) -> bool {
        self.soon.is_some_and(|(at, _)| at <= now)
    }

    fn is_looked_at(&mut self, now: Instant) {
        let soon = self.soon.filter(|(_, pause)| *pause < PAUSE.1);
        self.soon = soon.map(|(_, pause)| (now + pause, pause * 2));
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job as it ended; `None` when it has not by then.
    pub(crate) async fn wait(
        &self,
        store: &Arc<dyn Store>,
        job: JobId,
        longest: Duration,
    ) -> Result<Option<JobRecord>> {
        let (told, ended) = oneshot::channel();
        let begins = {
            let mut state = self.lock();
            let waited = state.jobs.entry(job).or_default();
            waited.told.push(told);
            waited.soon = Some((Instant::now(), PAUSE.0));
            !std::mem::replace(&mut state.looking, true)
        };
        if begins {
            // Outside the lock: a runtime that ends drops what it is given at once.
            let task = tokio::spawn(look(Looking(Some(self.clone())), Arc::clone(store)));
            self.lock().task = Some(task);
        }
        self.0.more.notify_one();
        match timeout(longest, ended).await {
            Ok(Ok(ended)) => ended.map(Some),
            Ok(Err(_)) => Err(Error::new(ErrorKind::Internal, "the task that waits for jobs ended")),
            Err(_) => Ok(None),
        }
    }

    /// The jobs to look at: all, or only those that are due by themselves; and when the next of them is. Forgets those that nobody waits for any more.
    fn due(&self, all: bool) -> (Vec<JobId>, Option<Instant>) {
        let (now, mut ids, mut next) = (Instant::now(), Vec::new(), None::<Instant>);
        self.lock().jobs.retain(|id, job| {
            job.told.retain(|told| !told.is_closed());
            if job.told.is_empty() {
                return false;
            }
            if all || job.is_due(now) {
                ids.push(*id);
                job.is_looked_at(now);
            }
            if let Some((at, _)) = job.soon {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
            true
        });
        (ids, next)
    }

    fn tell(&self, ended: Ended) {
        let mut state = self.lock();
        for job in ended.jobs {
            for told in state.take(job.id) {
                let _ = told.send(Ok(job.clone()));
            }
        }
        for id in ended.unknown {
            for told in state.take(id) {
                let message = format!("job {id} does not exist, or its history was removed");
                let _ = told.send(Err(Error::new(ErrorKind::NotFound, message)));
            }
        }
    }

    /// Tells those who wait for these jobs that nobody can look for them.
    fn fail(&self, jobs: &[JobId], error: &Error) {
        let mut state = self.lock();
        for told in jobs.iter().flat_map(|id| state.take(*id)) {
            let _ = told.send(Err(Error::new(error.kind(), error.reason())));
        }
    }

    /// The store is about to be closed: tells whoever waits, and ends the task, which would open it again.
    pub(crate) async fn end(&self) {
        let (jobs, task) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.jobs), state.task.take())
        };
        for told in jobs.into_values().flat_map(|job| job.told) {
            let _ = told.send(Err(Error::new(ErrorKind::Unavailable, "wait: the client was closed")));
        }
        if let Some(task) = task {
            task.abort();
            let _ = timeout(LONGEST_END, task).await;
        }
    }

    /// Whether the task may end: nobody waits.
    fn may_end(&self) -> bool {
        let mut state = self.lock();
        let idle = state.jobs.is_empty();
        state.looking = !idle;
        idle
    }
}
