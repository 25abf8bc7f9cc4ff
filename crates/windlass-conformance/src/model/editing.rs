use super::play::Play;
use crate::steps::*;
use windlass_core::{
    CancelReply, DeleteReply, EditReply, JobEdit, JobId, JobRecord, JobState, JobStore, RetryReply,
};

impl Play {
    /// Notes that a job of this queue is taken away from where claims may still have to step over it.
    pub(super) fn stone(&mut self, queue: &str) {
        self.stones[usize::from(queue == self.queues[1])] += 1;
    }

    /// The store's answer about a job is the oracle's, or that it does not exist any more and may not.
    fn same<T: PartialEq + std::fmt::Debug>(
        &self,
        id: JobId,
        known: Option<&JobRecord>,
        replies: [&T; 2],
        not_found: &T,
    ) {
        let [reply, expected] = replies;
        let gone = reply == not_found && known.is_some_and(|job| self.may_be_gone(job));
        assert!(reply == expected || gone, "job {id}: {reply:?}, oracle: {expected:?}, which knew {known:?}");
    }

    pub(super) async fn cancel(&mut self) {
        let ids = self.some_named(5);
        let known = self.oracle.records().await;
        let replies = self.admin.cancel(&ids).await.expect("cancel");
        self.trace(format!("cancel {ids:?}: {replies:?}"));
        let expected = self.oracle.store.cancel(&self.oracle.named(&ids)).await.expect("cancel");
        assert_eq!(replies.len(), expected.len());
        for (id, (reply, expected)) in ids.into_iter().zip(replies.iter().zip(&expected)) {
            self.same(id, known.get(&id), [reply, expected], &CancelReply::NotFound);
            self.stone_if_it_stood(known.get(&id));
        }
    }

    fn stone_if_it_stood(&mut self, known: Option<&JobRecord>) {
        if let Some(job) = known.filter(|job| job.state == JobState::Available && job.reason.is_none()) {
            self.stone(&job.queue);
        }
    }

    pub(super) async fn retry(&mut self) {
        let ids = self.some_named(5);
        self.retry_these(ids).await;
    }

    pub(super) async fn retry_these(&mut self, ids: Vec<JobId>) {
        let known = self.oracle.records().await;
        let replies = self.admin.retry(&ids).await.expect("retry");
        self.trace(format!("retry {ids:?}: {replies:?}"));
        let expected = self.oracle.store.retry(&self.oracle.named(&ids)).await.expect("retry");
        assert_eq!(replies.len(), expected.len());
        for (id, (reply, expected)) in ids.into_iter().zip(replies.iter().zip(&expected)) {
            self.same(id, known.get(&id), [reply, expected], &RetryReply::NotFound);
        }
    }

    pub(super) async fn edit(&mut self) {
        let (ids, edit) = (self.some_named(4), self.some_edit());
        let known = self.oracle.records().await;
        let replies = self.admin.edit(&ids, &edit).await.expect("edit");
        self.trace(format!("edit {ids:?} {edit:?}: {replies:?}"));
        let expected = self.oracle.store.edit(&self.oracle.named(&ids), &edit).await.expect("edit");
        assert_eq!(replies.len(), expected.len());
        for (id, (reply, expected)) in ids.into_iter().zip(replies.iter().zip(&expected)) {
            self.same(id, known.get(&id), [reply, expected], &EditReply::NotFound);
            self.stone_if_it_stood(known.get(&id));
        }
    }

    fn some_edit(&mut self) -> JobEdit {
        let edit = match self.rng.u32(..6) {
            0 => JobEdit::new().with_no_delay(),
            1 => JobEdit::new().with_delay(LATER),
            2 => JobEdit::new().with_scheduled_at(jiff::Timestamp::UNIX_EPOCH),
            3 => JobEdit::new().with_args(args(self.rng.usize(100..200))),
            _ => JobEdit::new().with_priority(self.rng.i16(-1..=1)),
        };
        match self.rng.u32(..6) {
            0 => edit.with_max_attempts(self.rng.u16(910..920)),
            1 => edit.with_queue(self.queues[self.rng.usize(..2)].clone()),
            _ => edit,
        }
    }

    pub(super) async fn delete(&mut self) {
        let ids = self.some_named(4);
        let known = self.oracle.records().await;
        let replies = self.admin.delete(&ids).await.expect("delete");
        self.trace(format!("delete {ids:?}: {replies:?}"));
        let expected = self.oracle.store.delete(&self.oracle.named(&ids)).await.expect("delete");
        assert_eq!(replies.len(), expected.len());
        for (id, (reply, expected)) in ids.into_iter().zip(replies.iter().zip(&expected)) {
            self.same(id, known.get(&id), [reply, expected], &DeleteReply::NotFound);
            self.stone_if_it_stood(known.get(&id));
            if *expected == DeleteReply::Deleted {
                self.oracle.deleted.insert(id);
            }
        }
    }
}
