use crate::promise::{panicked, told};
use napi::{
    Result, Status,
    bindgen_prelude::{Function, Int32Array},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_bridge::Failure;

/// Does not keep the process alive: who waits for an answer does that.
type Bell = ThreadsafeFunction<(), (), (), Status, false, true, 1>;

/// The answers of a client's calls, which its thread fetches together when the bell rings. A promise that settles itself costs a function of
/// Node's that any thread may call, made for it alone, and a turn of the loop.
pub(crate) struct Answers {
    bell: Bell,
    waiting: Mutex<Vec<Answer>>,
}

type Answer = (i32, std::result::Result<String, Failure>);

/// What came since the last time.
#[napi(object)]
pub struct Answered {
    /// The numbers of the calls; negative where the call failed.
    pub numbers: Int32Array,
    /// What each answered; what an error says, as JSON.
    pub texts: Vec<String>,
}

/// The answer of one call, still to be given. When it is dropped, which only a panic or the end of the call does, the call fails.
pub(crate) struct Unanswered {
    answers: Arc<Answers>,
    number: i32,
    given: bool,
}

impl Answers {
    pub(crate) fn new(bell: &Function<'_, (), ()>) -> Result<Arc<Self>> {
        let bell = bell.build_threadsafe_function::<()>().weak::<true>().max_queue_size::<1>();
        let bell = bell.callee_handled::<false>().build()?;
        Ok(Arc::new(Self { bell, waiting: Mutex::default() }))
    }

    pub(crate) fn of_call(self: &Arc<Self>, number: i32) -> Unanswered {
        Unanswered { answers: Arc::clone(self), number, given: false }
    }

    pub(crate) fn take(&self) -> Option<Answered> {
        let taken = std::mem::take(&mut *self.lock());
        if taken.is_empty() {
            return None;
        }
        let (mut numbers, mut texts) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()));
        for (number, answer) in taken {
            numbers.push(if answer.is_ok() { number } else { -number });
            texts.push(answer.unwrap_or_else(|failure| told(&failure)));
        }
        Some(Answered { numbers: Int32Array::new(numbers), texts })
    }

    /// To be called when there are some to fetch.
    pub(crate) fn ring(&self) {
        self.bell.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unanswered {
    pub(crate) fn give(mut self, answer: std::result::Result<String, Failure>) {
        self.given = true;
        self.answers.lock().push((self.number, answer));
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.given {
            self.answers.lock().push((self.number, Err(panicked())));
            self.answers.ring();
        }
    }
}
