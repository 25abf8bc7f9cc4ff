use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use windlass_core::{Ended, Error, ErrorKind, JobId, JobRecord, Result, Store, Wake};

/// The first and the longest pause between two looks at the jobs that are waited for, while no hint comes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// A look at the jobs is followed by a pause so many times as long, however many are waited for.
const REST: u32 = 3;
/// How many jobs one look asks for.
const TOGETHER: usize = 1_000;
/// How long the connection for hints is kept when nobody waits any more.
const KEEP: Duration = Duration::from_secs(10);
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
    jobs: HashMap<JobId, Vec<Told>>,
    /// Those of them that were not looked at yet.
    new: HashSet<JobId>,
    /// Whether the task runs.
    looking: bool,
    task: Option<JoinHandle<()>>,
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
            state.jobs.entry(job).or_default().push(told);
            state.new.insert(job);
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

    /// The jobs to look at: all, or only those that were not looked at yet. Forgets those that nobody waits for any more.
    fn ids(&self, all: bool) -> Vec<JobId> {
        let mut state = self.lock();
        state.jobs.retain(|_, told| {
            told.retain(|told| !told.is_closed());
            !told.is_empty()
        });
        let new = std::mem::take(&mut state.new);
        if all {
            state.jobs.keys().copied().collect()
        } else {
            new.into_iter().filter(|id| state.jobs.contains_key(id)).collect()
        }
    }

    fn tell(&self, ended: Ended) {
        let mut state = self.lock();
        for job in ended.jobs {
            for told in state.jobs.remove(&job.id).into_iter().flatten() {
                let _ = told.send(Ok(job.clone()));
            }
        }
        for id in ended.unknown {
            for told in state.jobs.remove(&id).into_iter().flatten() {
                let message = format!("job {id} does not exist, or its history was removed");
                let _ = told.send(Err(Error::new(ErrorKind::NotFound, message)));
            }
        }
    }

    /// Tells those who wait for these jobs that nobody can look for them.
    fn fail(&self, jobs: &[JobId], error: &Error) {
        let mut state = self.lock();
        for told in jobs.iter().filter_map(|id| state.jobs.remove(id)).flatten() {
            let _ = told.send(Err(Error::new(error.kind(), error.reason())));
        }
    }

    /// The store is about to be closed: tells whoever waits, and ends the task, which would open it again.
    pub(crate) async fn end(&self) {
        let (jobs, task) = {
            let mut state = self.lock();
            state.new.clear();
            (std::mem::take(&mut state.jobs), state.task.take())
        };
        for told in jobs.into_values().flatten() {
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

/// The task's own. Where it goes otherwise than by its end, as with the runtime that it is of, whoever waits is told, and the next one begins
/// another.
struct Looking(Option<Waiting>);

impl Drop for Looking {
    fn drop(&mut self) {
        let Some(waiting) = &self.0 else { return };
        let mut state = waiting.lock();
        state.looking = false;
        state.jobs.clear();
        state.new.clear();
    }
}

/// Looks for the jobs that are waited for until nobody waits.
async fn look(mut looking: Looking, store: Arc<dyn Store>) {
    let Some(waiting) = looking.0.clone() else { return };
    let mut ends = store.ends();
    let (mut all, mut pause) = (true, PAUSE.0);
    loop {
        let ids = waiting.ids(all);
        let began = Instant::now();
        for some in ids.chunks(TOGETHER) {
            match store.ended(some).await {
                Ok(ended) => waiting.tell(ended),
                // That does not pass by itself: a right that is missing, a schema that is none.
                Err(error) if !error.is_retryable() && !error.is_ambiguous() => waiting.fail(some, &error),
                Err(error) => {
                    // Whoever waits has a time limit; the store may be back before.
                    tracing::debug!(%error, "cannot look for the jobs that are waited for");
                    pause = PAUSE.1;
                    break;
                }
            }
        }
        sleep((began.elapsed() * REST).min(PAUSE.1)).await;
        let idle = waiting.lock().jobs.is_empty();
        let hint = async {
            let longest = if idle { KEEP } else { pause };
            match &mut ends {
                Some(ends) => ends.wait(longest).await,
                None => {
                    sleep(longest).await;
                    Wake::Timeout
                }
            }
        };
        tokio::select! {
            biased;
            wake = hint => {
                if idle && waiting.may_end() {
                    looking.0 = None; // another may look by now
                    return;
                }
                all = true;
                pause = if wake == Wake::Hint { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            }
            () = waiting.0.more.notified() => {
                all = false;
                pause = PAUSE.0;
            }
        }
    }
}
