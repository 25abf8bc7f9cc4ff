use crate::{Call, Failure, call::guarded, fork::Undivided};
use futures_util::{StreamExt, future::abortable, stream::FuturesUnordered};
use std::{
    future::{Future, poll_fn},
    mem,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};
use tokio::runtime::{Builder, Runtime};
use windlass::ErrorKind;

/// How many threads it has. They only talk to the store, since jobs run elsewhere, and no language drains so fast that one is too few. With a second
/// each enqueue woke both: 10 tasks of Python 25.8k jobs/s and 28.1k with one, drains of 250k to 590k jobs/s the same (three rounds in turns, 2 cores).
const THREADS: usize = 1;

/// The async runtime of a process that has none of its own. Clones are the same one.
///
/// A forked child has none of its threads: every call there is refused, instead of waiting for ever.
#[derive(Clone, Debug)]
pub struct Engine {
    runtime: Arc<Runtime>,
    process: u32,
}

impl Engine {
    /// The one of this process, made on first use and never ended. A forked child gets one of its own; what its parent opened stays refused.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn of_process() -> Result<Self, Failure> {
        static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);
        let _undivided = Undivided::begin();
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.as_ref().filter(|engine| engine.check().is_ok()) {
            return Ok(engine.clone());
        }
        let made = Self::new()?;
        // Dropping the parent's would wait for threads that are not there.
        mem::forget(engine.replace(made.clone()));
        Ok(made)
    }

    /// A new one.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new() -> Result<Self, Failure> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("windlass").enable_all().build();
        let runtime = runtime.map_err(|error| {
            Failure::of(ErrorKind::Internal, format!("no threads can be started for Windlass: {error}"))
        })?;
        Ok(Self { runtime: Arc::new(runtime), process: std::process::id() })
    }

    /// Refuses where this process is not the one that made it.
    ///
    /// # Errors
    /// In a forked child.
    pub fn check(&self) -> Result<(), Failure> {
        match std::process::id() {
            here if here == self.process => Ok(()),
            here => Err(Failure::of(
                ErrorKind::InvalidOption,
                format!(
                    "Windlass was started in process {} and this is its fork {here}, which has none of its threads and connections; start it after the fork",
                    self.process
                ),
            )),
        }
    }

    /// Runs something to its end while the caller's thread waits. Not to be called by async code.
    ///
    /// # Errors
    /// Its own, and in a forked child.
    pub fn run<T, E: Into<Failure>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
        self.check()?;
        self.runtime.block_on(guarded(work))
    }

    /// Runs something, and calls back from a thread of its own when that is done, also by a panic.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start<T: Send + 'static, E: Into<Failure> + Send>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) -> Result<Call, Failure> {
        self.check()?;
        let (work, handle) = abortable(async move { done(guarded(work).await) });
        self.runtime.spawn(work);
        Ok(Call(handle))
    }

    /// Begins several at once on one thread, so that what they have stored goes into one transaction, and says when some of them are done: once
    /// for all that are done together, after each was told.
    ///
    /// # Errors
    /// In a forked child; nothing is begun then.
    pub(crate) fn start_all<W: Future<Output = ()> + Send + 'static>(
        &self,
        works: impl IntoIterator<Item = W>,
        some_done: impl Fn() + Send + 'static,
    ) -> Result<Vec<Call>, Failure> {
        self.check()?;
        let (mut under_way, calls): (FuturesUnordered<_>, Vec<_>) = works
            .into_iter()
            .map(|work| {
                let (work, handle) = abortable(work);
                (work, Call(handle))
            })
            .unzip();
        self.runtime.spawn(poll_fn(move |cx| {
            let mut is_some_done = false;
            let polled = loop {
                match under_way.poll_next_unpin(cx) {
                    Poll::Ready(Some(_)) => is_some_done = true,
                    Poll::Ready(None) => break Poll::Ready(()),
                    Poll::Pending => break Poll::Pending,
                }
            };
            if is_some_done {
                some_done();
            }
            polled
        }));
        Ok(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn it_blocks_or_calls_back_and_passes_errors_on() {
        let engine = Engine::of_process().unwrap();
        assert_eq!(engine.run(async { Ok::<_, Failure>(7) }), Ok(7));
        let lost = || Failure::of(ErrorKind::LeaseLost, "gone");
        assert_eq!(engine.run(async { Err::<(), _>(lost()) }), Err(lost()));
        let (sender, receiver) = mpsc::channel();
        engine.start(async { Ok::<_, Failure>(8) }, move |done| sender.send(done).unwrap()).unwrap();
        assert_eq!(receiver.recv(), Ok(Ok(8)));
    }

    #[test]
    fn those_begun_together_are_told_of_together_and_each_ends_by_itself() {
        let engine = Engine::of_process().unwrap();
        let (told, heard) = mpsc::channel();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let work = |n: usize| {
            let (told, gate) = (told.clone(), Arc::clone(&gate));
            async move {
                let done = guarded(async {
                    let _ended = gate.acquire().await;
                    assert!(n != 2, "number {n}");
                    Ok::<_, Failure>(n)
                });
                told.send(done.await.map_err(|failure| failure.code)).unwrap();
            }
        };
        let (ring, rung) = mpsc::channel();
        let calls = engine.start_all([0, 1, 2, 3].map(work), move || ring.send(()).unwrap()).unwrap();
        calls[1].abort();
        gate.close();
        let mut all: Vec<_> = heard.iter().take(3).collect();
        all.sort();
        assert_eq!(all, [Ok(0), Ok(3), Err("internal")]);
        // Once at least after the last of them, and when all have ended nobody is left who could ring.
        assert!((1..=4).contains(&rung.iter().count()));
        drop(told);
        assert!(heard.recv().is_err(), "the one that was ended says nothing");
    }

    #[test]
    fn a_panic_is_a_failure_and_the_engine_goes_on() {
        let engine = Engine::of_process().unwrap();
        let panics = || async {
            tokio::task::yield_now().await;
            match std::hint::black_box(true) {
                true => panic!("no {}", "luck"),
                false => Ok::<(), Failure>(()),
            }
        };
        let failed = engine.run(panics()).unwrap_err();
        assert_eq!((failed.code, failed.ambiguous), ("internal", true));
        assert!(failed.message.ends_with("the call panicked: no luck"), "{failed}");
        let (sender, receiver) = mpsc::channel();
        engine.start(panics(), move |done| sender.send(done).unwrap()).unwrap();
        assert_eq!(receiver.recv(), Ok(Err(failed)));
        assert_eq!(engine.run(async { Ok::<_, Failure>(7) }), Ok(7));
    }

    #[test]
    fn who_does_not_want_the_answer_ends_the_call() {
        let engine = Engine::of_process().unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        let work = async move {
            let _until_dropped = sender;
            std::future::pending::<Result<(), Failure>>().await
        };
        let call = engine.start(work, |_| panic!("called back")).unwrap();
        call.abort();
        assert!(receiver.recv().is_err(), "it is dropped");
    }

    #[test]
    fn a_fork_is_refused() {
        let engine = Engine { process: std::process::id() + 1, ..Engine::new().unwrap() };
        let refused = engine.run(async { Ok::<_, Failure>(7) }).unwrap_err();
        assert!(refused.message.contains("after the fork"), "{refused}");
        assert!(engine.start(async { Ok::<_, Failure>(7) }, |_| panic!("called back")).is_err());
    }
}
