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
        *(if is_sealed { &mut touched.encrypted } else { &mut touched.done }) += 1;
        !is_sealed
    }

    /// Does it to these jobs.
    pub(super) async fn act(&self, store: &dyn Store, ids: &[JobId], touched: &mut Touched) -> Result<()> {
        let (mut asked, mut encrypted) = (0, 0);
        let done = match self {
            Self::Cancel => {
                let replies = store.cancel(ids).await?;
                asked = count(&replies, CancelReply::Running);
                count(&replies, CancelReply::Cancelled)
            }
            Self::Retry => count(&store.retry(ids).await?, RetryReply::Retried),
            Self::Edit(edit) => {
                let replies = store.edit(ids, edit).await?;
                encrypted = count(&replies, EditReply::Encrypted);
                count(&replies, EditReply::Edited)
            }
            Self::Delete => count(&store.delete(ids).await?, DeleteReply::Deleted),
        };
        touched.done += done;
        touched.asked += asked;
        touched.encrypted += encrypted;
        touched.left += ids.len() as u64 - done - asked - encrypted;
        Ok(())
    }
}

fn count<T: Copy + PartialEq>(replies: &[T], what: T) -> u64 {
    replies.iter().filter(|reply| **reply == what).count() as u64
}
