use super::touched::Touched;
use windlass_core::{
    CancelReply, DeleteReply, EditReply, JobEdit, JobId,
    JobState::{self, Available, Cancelled, Discarded, Retryable, Running, Scheduled},
    Result, RetryReply, Store,
};

/// What is done to jobs.
#[derive(Clone, Debug)]
pub(super) enum Verb {
    Cancel,
    Retry,
    Edit(JobEdit),
    Delete,
}

impl Verb {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Edit(_) => "edit",
            Self::Delete => "delete",
        }
    }

    /// As the audit log has it.
    pub(super) fn action(&self) -> &'static str {
        match self {
            Self::Cancel => "jobs.cancel",
            Self::Retry => "jobs.retry",
            Self::Edit(_) => "jobs.edit",
            Self::Delete => "jobs.delete",
        }
    }

    /// To whom, where the filter names no state: in the order in which jobs go from one state to the next, so that one that
    /// moves on before its state is read is met there.
    pub(super) fn states(&self) -> &'static [JobState] {
        match self {
            Self::Cancel => &[Scheduled, Retryable, Available, Running],
            Self::Retry => &[Retryable, Discarded, Cancelled],
            Self::Edit(_) => &[Scheduled, Retryable, Available],
            Self::Delete => &[Scheduled, Retryable, Available, Discarded, Cancelled],
        }
    }

    /// To whom, where it names one.
    pub(super) fn can_be_done_to(&self) -> &'static [JobState] {
        match self {
            Self::Edit(edit) if edit.when().is_none() => {
                &[Scheduled, Retryable, Available, Discarded, Cancelled]
            }
            _ => self.states(),
        }
    }

    /// Whether it says when jobs run.
    pub(super) fn sets_time(&self) -> bool {
        matches!(self, Self::Edit(edit) if edit.when().is_some())
    }

    /// Whether it is done to no job whose args are encrypted.
    pub(super) fn sets_args(&self) -> bool {
        matches!(self, Self::Edit(edit) if edit.args().is_some())
    }

    /// Whether it would be done to a job in this state; counts it so.
    pub(super) fn would(&self, state: Option<JobState>, is_sealed: bool, touched: &mut Touched) -> bool {
        if !state.is_some_and(|state| self.can_be_done_to().contains(&state)) {
            touched.left += 1;
            return false;
        }
        *match (self, state) {
            _ if is_sealed => &mut touched.encrypted,
            (Self::Cancel, Some(Running)) => &mut touched.asked,
            _ => &mut touched.done,
        } += 1;
        !is_sealed
    }

    /// Does it to these jobs, and counts those that it was done to, also where it fails after some.
    pub(super) async fn act(&self, store: &dyn Store, ids: &[JobId], touched: &mut Touched) -> Result<()> {
        let (mut asked, mut encrypted) = (0, 0);
        let (told, done, ended) = match self {
            Self::Cancel => {
                let (replies, ended) = replies(store.cancel(ids).await);
                asked = count(&replies, CancelReply::Running);
                (replies.len(), count(&replies, CancelReply::Cancelled), ended)
            }
            Self::Retry => {
                let (replies, ended) = replies(store.retry(ids).await);
                (replies.len(), count(&replies, RetryReply::Retried), ended)
            }
            Self::Edit(edit) => {
                let (replies, ended) = replies(store.edit(ids, edit).await);
                encrypted = count(&replies, EditReply::Encrypted);
                (replies.len(), count(&replies, EditReply::Edited), ended)
            }
            Self::Delete => {
                let (replies, ended) = replies(store.delete(ids).await);
                (replies.len(), count(&replies, DeleteReply::Deleted), ended)
            }
        };
        touched.done += done;
        touched.asked += asked;
        touched.encrypted += encrypted;
        touched.left += told as u64 - done - asked - encrypted;
        ended
    }
}

/// The replies of a call, or those that it had before it failed; and how it ended.
fn replies<R: Copy + 'static>(answer: Result<Vec<R>>) -> (Vec<R>, Result<()>) {
    match answer {
        Ok(replies) => (replies, Ok(())),
        Err(error) => (error.replies().iter().copied().flatten().collect(), Err(error)),
    }
}

fn count<T: Copy + PartialEq>(replies: &[T], what: T) -> u64 {
    replies.iter().filter(|reply| **reply == what).count() as u64
}
