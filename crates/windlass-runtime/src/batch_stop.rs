use crate::{
    BatchFuture, caught, conclusion::Ended, epoch::ClaimScope, job_switch::JobSwitch, time_limit::TimeLimit,
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::sleep;
use windlass_core::{Disposition, JobId, Outcome};

/// How the call for a batch ended.
pub(crate) enum BatchEnd {
    /// Its handler says what becomes of each job.
    Outcomes(Vec<Outcome>),
    Panic(String),
    /// It was dropped, which is this for each job.
    Dropped(Outcome),
    /// The jobs were taken from this worker.
    NotRun,
}

/// What ends a batch before its handler does: its time, the cancellation of all its jobs, and the loss of its registration.
/// One job that is cancelled is told so, and does not end the others.
pub(crate) struct BatchStop {
    jobs: Arc<[(Arc<ClaimScope>, JobId)]>,
    grace: Duration,
    limit: Option<TimeLimit>,
    /// The jobs were told that their time is over.
    told: bool,
    /// Once the handler waits: the registration is lost; all jobs are cancelled.
    evicted: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    cancelled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl BatchStop {
    /// The time begins now, or where the jobs are lent, when somebody took the first of them.
    pub(crate) fn new(
        jobs: Vec<(Arc<ClaimScope>, JobId)>,
        timeout: Option<Duration>,
        grace: Duration,
    ) -> Self {
        let (scope, first) = &jobs[0];
        let limit = timeout.map(|timeout| TimeLimit::new(timeout, grace, scope.switch(*first)));
        Self { jobs: jobs.into(), grace, limit, told: false, evicted: None, cancelled: None }
    }

    /// Polls the handler, and what may end it. `waits` is called once, when the handler waits.
    pub(crate) fn poll(
        &mut self,
        future: &mut BatchFuture,
        waits: impl FnOnce(),
        cx: &mut Context<'_>,
    ) -> Poll<BatchEnd> {
        if let Poll::Ready(end) = poll(future, cx) {
            return Poll::Ready(end);
        }
        if self.evicted.is_none() {
            self.listen();
            waits();
        }
        if self.evicted.as_mut().is_some_and(|evicted| evicted.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(BatchEnd::NotRun);
        }
        let failure = ready!(self.poll_over(cx));
        // What wraps the handler may still take note.
        Poll::Ready(match poll(future, cx) {
            Poll::Ready(end) => end,
            Poll::Pending => BatchEnd::Dropped(failure),
        })
    }

    fn listen(&mut self) {
        let (jobs, epoch, grace) = (Arc::clone(&self.jobs), Arc::clone(&self.jobs[0].0.epoch), self.grace);
        self.evicted = Some(Box::pin(epoch.evicted().clone().cancelled_owned()));
        self.cancelled = Some(Box::pin(async move {
            epoch.all_cancelled(&jobs).await;
            sleep(grace).await;
        }));
    }

    /// Ready, with the outcome of every job, when the handler's future is to be dropped.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if self.cancelled.as_mut().is_some_and(|cancelled| cancelled.as_mut().poll(cx).is_ready()) {
            let (reason, grace) = (Disposition::BY_REQUEST, self.grace);
            let why = format!("{reason}; the handler went on for {grace:?} more and was dropped");
            self.switches().iter().for_each(|switch| _ = switch.expired.set(why.clone()));
            return Poll::Ready(Outcome::Cancel(why));
        }
        let Some(limit) = &mut self.limit else { return Poll::Pending };
        let over = limit.poll(cx);
        if limit.is_over() && !std::mem::replace(&mut self.told, true) {
            self.switches().iter().for_each(|switch| switch.token.cancel());
        }
        let failure = ready!(over);
        if let Outcome::Retry { error, .. } = &failure {
            self.switches().iter().for_each(|switch| _ = switch.expired.set(error.clone()));
        }
        Poll::Ready(failure)
    }

    fn switches(&self) -> Vec<Arc<JobSwitch>> {
        self.jobs.iter().map(|(scope, job)| scope.switch(*job)).collect()
    }

    /// How the attempt of each job ended.
    pub(crate) fn of_each(&self, end: BatchEnd) -> Vec<Ended> {
        let count = self.jobs.len();
        match end {
            BatchEnd::Outcomes(mut outcomes) => {
                let (got, missing) = (outcomes.len(), |error| Outcome::Retry { after: None, error });
                outcomes.resize_with(count, || {
                    missing(format!("the handler of a batch of {count} gave {got} outcomes"))
                });
                outcomes.into_iter().map(|outcome| self.in_time(Ended::Outcome(outcome))).collect()
            }
            BatchEnd::Panic(error) => (0..count).map(|_| self.in_time(Ended::Panic(error.clone()))).collect(),
            BatchEnd::Dropped(outcome) => {
                (0..count).map(|_| self.in_time(Ended::Outcome(outcome.clone()))).collect()
            }
            BatchEnd::NotRun => (0..count).map(|_| Ended::NotRun).collect(),
        }
    }

    /// A failure after the time was over says so.
    fn in_time(&self, ended: Ended) -> Ended {
        match (ended, self.limit.as_ref().filter(|limit| limit.is_over())) {
            (Ended::Outcome(Outcome::Retry { after, error }), Some(limit)) => {
                Ended::TimedOut(limit.failure(after, &error))
            }
            (Ended::Panic(error), Some(limit)) => Ended::TimedOut(limit.failure(None, &error)),
            (ended, _) => ended,
        }
    }
}

fn poll(future: &mut BatchFuture, cx: &mut Context<'_>) -> Poll<BatchEnd> {
    match caught(|| future.as_mut().poll(cx)) {
        Ok(outcomes) => outcomes.map(BatchEnd::Outcomes),
        Err(panic) => Poll::Ready(BatchEnd::Panic(panic)),
    }
}
