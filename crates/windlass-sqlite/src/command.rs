//! What the writer is asked to do.

use crate::{
    error::{Fault, Outcome, again},
    tx::Tx,
};
use tokio::sync::oneshot;
use windlass_core::{Error, Result};

/// A command as the writer sees it.
pub(crate) trait Command: Send {
    /// Whether its effects must survive a power cut once acknowledged.
    fn durable(&self) -> bool;
    /// Whether nobody waits for the answer any more.
    fn abandoned(&self) -> bool;
    /// Whether nobody ever did: it is to be done some time.
    fn unattended(&self) -> bool;
    /// Does the work. False when it failed; the reason is kept.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Why it failed when it ran last.
    fn fault(&self) -> Option<&Fault>;
    /// Answers the caller, after the commit or with the error that stopped it.
    fn answer(self: Box<Self>, stopped: Option<&Error>);
}

/// A closure as a command.
pub(crate) struct Task<T, F> {
    pub(crate) work: F,
    pub(crate) durable: bool,
    /// Whether it is done also when its caller has gone meanwhile.
    pub(crate) kept: bool,
    pub(crate) result: Option<Outcome<T>>,
    pub(crate) reply: Option<oneshot::Sender<Result<T>>>,
}

impl<T, F> Task<T, F> {
    /// A command and where its answer arrives.
    pub(crate) fn new(durable: bool, work: F) -> (Box<Self>, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { work, durable, kept: false, result: None, reply: Some(reply) }), answer)
    }

    /// A command that nobody waits for.
    pub(crate) fn unattended(work: F) -> Box<Self> {
        Box::new(Self { work, durable: true, kept: true, result: None, reply: None })
    }
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send> Command for Task<T, F> {
    fn durable(&self) -> bool {
        self.durable
    }

    fn abandoned(&self) -> bool {
        !self.kept && self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    fn unattended(&self) -> bool {
        self.reply.is_none()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        self.result.insert((self.work)(tx)).is_ok()
    }

    fn fault(&self) -> Option<&Fault> {
        self.result.as_ref()?.as_ref().err()
    }

    fn answer(self: Box<Self>, stopped: Option<&Error>) {
        let Some(reply) = self.reply else { return };
        let answer = match (stopped, self.result) {
            // Its own refusal, too: it may be because of what another command wrote in this transaction, which is not there.
            (Some(error), _) => Err(again(error)),
            (None, Some(Err(fault))) => Err(fault.into_error()),
            (None, Some(Ok(value))) => Ok(value),
            (None, None) => return,
        };
        // A caller that is gone needs no answer. A value that has to be undone then does that when it is dropped.
        let _ = reply.send(answer);
    }
}

pub(crate) type BoxCommand = Box<dyn Command>;
