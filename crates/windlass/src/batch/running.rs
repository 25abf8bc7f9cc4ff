use super::{
    BatchFn,
    meeting::Meeting,
    member::{Member, Woken, failed},
    shared::Shared,
};
use bytes::Bytes;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll, Waker},
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};
use windlass_core::Outcome;
use windlass_runtime::{BatchFuture, Context, Handler, caught};

/// How long jobs wait at their handler for those that a layer holds up, which may wait for the first to be done. They run
/// without them then, and those that come later by themselves.
const HELD_UP: Duration = Duration::from_secs(1);

/// A batch that runs. Each job goes through the layers by itself; where they meet the function is called for all that are
/// there, and each goes back with its own outcome.
pub(super) struct Running<J, X, F: BatchFn<J, X>> {
    shared: Arc<Shared<J, X, F>>,
    meeting: Arc<Meeting<J>>,
    contexts: Vec<Context>,
    members: Vec<Member>,
    woken: Arc<Woken>,
    call: Option<Call>,
    held_up: Option<Pin<Box<Sleep>>>,
}

/// The function at work, and who waits for each of its outcomes.
struct Call {
    running: BatchFuture,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

impl<J, X, F: BatchFn<J, X>> Running<J, X, F> {
    pub(super) fn new(
        way: &Arc<dyn Handler>,
        shared: Arc<Shared<J, X, F>>,
        jobs: Vec<(Bytes, Context)>,
    ) -> Self {
        let contexts: Vec<_> = jobs.iter().map(|(_, context)| context.clone()).collect();
        let meeting = shared.meetings().of(&contexts);
        let mut running = Self {
            shared,
            meeting,
            contexts,
            members: Vec::with_capacity(jobs.len()),
            woken: Arc::new(Woken::new()),
            call: None,
            held_up: None,
        };
        for (args, context) in jobs {
            let job = context.clone();
            let member = Member::start(|| way.call(args, context));
            if member.is_done() {
                running.shared.meetings().leave(&job);
            }
            running.members.push(member);
        }
        running
    }

    /// Polls the members that want it. Whether all are done.
    fn poll_members(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.woken));
        for (member, context) in self.members.iter_mut().zip(&self.contexts) {
            if member.poll(&mut Task::from_waker(&waker)) {
                self.shared.meetings().leave(context);
            }
        }
        self.members.iter().all(Member::is_done)
    }

    /// Calls the function when all are there that will be, or the others are held up for too long. Whether it did.
    fn begin(&mut self, task: &mut Task<'_>) -> bool {
        let held_up = self.held_up.as_mut().is_some_and(|timer| timer.as_mut().poll(task).is_ready());
        let Some(joined) = self.meeting.begin(held_up, task.waker()) else {
            if self.held_up.is_none() && self.meeting.waits() {
                self.held_up = Some(Box::pin(sleep(HELD_UP)));
                return self.begin(task);
            }
            return false;
        };
        self.held_up = None;
        let (jobs, waiting): (Vec<_>, Vec<_>) = joined.into_iter().unzip();
        match caught(|| self.shared.start(jobs)) {
            Ok(running) => self.call = Some(Call { running, waiting }),
            Err(panic) => tell(waiting, Err(panic)),
        }
        true
    }

    /// Polls the function. Whether it is over.
    fn poll_call(&mut self, task: &mut Task<'_>) -> bool {
        let Some(call) = &mut self.call else { return false };
        let outcomes = match caught(|| call.running.as_mut().poll(task)) {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(outcomes)) => Ok(outcomes),
            Err(panic) => Err(panic),
        };
        let Some(Call { running, waiting }) = self.call.take() else { return false };
        let dropped = caught(move || drop(running));
        tell(waiting, dropped.and(outcomes));
        true
    }
}

/// Each its outcome, or all that the function panicked.
fn tell(waiting: Vec<oneshot::Sender<Outcome>>, outcomes: Result<Vec<Outcome>, String>) {
    let count = waiting.len();
    let outcomes = outcomes.unwrap_or_else(|panic| vec![failed(panic); count]);
    for (waiting, outcome) in waiting.into_iter().zip(outcomes) {
        let _ = waiting.send(outcome); // a layer may have given up
    }
}

impl<J, X, F: BatchFn<J, X>> Future for Running<J, X, F> {
    type Output = Vec<Outcome>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Vec<Outcome>> {
        let this = &mut *self;
        this.woken.set(task.waker());
        // Layers take note of the end of their time when they are polled once more.
        let mut look = this.contexts.first().is_none_or(|job| job.expired().is_some());
        loop {
            look |= this.woken.take();
            if std::mem::take(&mut look) && this.poll_members() {
                let members = std::mem::take(&mut this.members);
                return Poll::Ready(members.into_iter().map(Member::into_outcome).collect());
            }
            let goes_on = if this.call.is_some() { this.poll_call(task) } else { this.begin(task) };
            if !goes_on {
                return Poll::Pending; // a member that woke meanwhile woke this, too
            }
        }
    }
}

/// Nobody will come to the meeting any more.
impl<J, X, F: BatchFn<J, X>> Drop for Running<J, X, F> {
    fn drop(&mut self) {
        self.contexts.iter().for_each(|job| self.shared.meetings().leave(job));
    }
}
