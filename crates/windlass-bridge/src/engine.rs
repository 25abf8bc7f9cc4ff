use crate::{Call, Failure, call::guarded, fork::Undivided};
use std::{
    future::Future,
    mem,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::runtime::{Builder, Runtime};
use windlass::ErrorKind;

/// How many threads it has: they only talk to the store, since jobs run elsewhere.
const THREADS: usize = 2;

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
        Ok(Call(self.runtime.spawn(async move { done(guarded(work).await) }).abort_handle()))
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
