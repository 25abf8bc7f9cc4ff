//! Ending `enqueue --many` between two batches, with a word on what is stored: whoever pressed Ctrl-C goes on from there.

use crate::{
    failure::{Failure, Outcome},
    interrupt::Signals,
};
use std::{
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How far the input is, for whoever wants it to end.
#[derive(Clone, Default)]
pub(super) struct Interrupt(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// How many jobs are stored, and the last line of which that is known.
    enqueued: u64,
    line: u64,
    /// The first and the last line of the batch that is being stored.
    under_way: Option<(u64, u64)>,
    /// The next batch is one too many.
    is_wanted: bool,
    has_key: bool,
}

impl Interrupt {
    /// Ends the process at a signal: at once while the input is read, which blocks; after the batch that is being stored, or at a second
    /// signal without waiting for it.
    pub(super) fn listen(has_key: bool, json: bool) -> Outcome<Self> {
        let interrupt = Self(Arc::new(Mutex::new(State { has_key, ..State::default() })));
        let (mut signals, state) = (Signals::listen()?, interrupt.clone());
        tokio::spawn(async move {
            loop {
                signals.next().await;
                // Held to the end: no batch begins meanwhile.
                let mut state = state.lock();
                if state.is_wanted || state.under_way.is_none() {
                    process::exit(state.failure().report(json).into());
                }
                state.is_wanted = true;
            }
        });
        Ok(interrupt)
    }

    /// A batch is about to be stored, the one of these lines.
    pub(super) fn begin(&self, first: u64, last: u64) {
        self.lock().under_way = Some((first, last));
    }

    /// So many jobs are stored by now. An error where somebody wants no more.
    pub(super) fn stored(&self, enqueued: u64) -> Outcome {
        let mut state = self.lock();
        state.enqueued = enqueued;
        if let Some((_, last)) = state.under_way.take() {
            state.line = last;
        }
        if state.is_wanted { Err(state.failure()) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn failure(&self) -> Failure {
        let Self { enqueued, line, has_key, .. } = *self;
        let stored = match line {
            0 => "nothing was enqueued".to_owned(),
            _ => format!("{enqueued} jobs were enqueued, all up to line {line}"),
        };
        let go_on = match (has_key, self.under_way) {
            (true, _) => "the same call goes on from there",
            (false, Some(_)) => "look for them before you go on",
            (false, None) => "go on with the next line",
        };
        let rest = match self.under_way {
            Some((first, last)) => {
                format!("; whether lines {first} to {last} were is not known; {go_on}")
            }
            None if line == 0 => String::new(),
            None => format!(", and none behind it; {go_on}"),
        };
        Failure::failed("interrupted", format!("interrupted before the end: {stored}{rest}"))
            .with("line", line)
            .with("enqueued", enqueued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_is_stored_and_what_is_not_known() {
        let told = |enqueued, line, under_way, has_key| {
            State { enqueued, line, under_way, has_key, is_wanted: true }.failure().into_message()
        };
        let begin = "interrupted before the end: ";
        assert_eq!(told(0, 0, None, false), format!("{begin}nothing was enqueued"));
        assert_eq!(
            told(9, 10, None, false),
            format!(
                "{begin}9 jobs were enqueued, all up to line 10, and none behind it; go on with the next line"
            )
        );
        assert_eq!(
            told(9, 10, Some((11, 12)), true),
            format!(
                "{begin}9 jobs were enqueued, all up to line 10; whether lines 11 to 12 were is not known; the same call goes on from there"
            )
        );
    }
}
