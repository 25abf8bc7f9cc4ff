use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
};
use serde_json::json;
use std::fmt::Write;
use windlass::{AuditEntry, CancelReply, Client, DeleteReply, EditReply, Error, JobEdit, JobId, RetryReply};

/// Cancels jobs. Fails when one of them was over or is unknown, after telling what became of each.
pub(crate) async fn cancel(globals: &Globals, client: &Client, ids: &[JobId]) -> Outcome {
    let call = Call {
        action: "jobs.cancel",
        edit: None,
        done: "cancelled",
        not_done: "not_cancelled",
        is_done: |reply| matches!(reply, CancelReply::Cancelled | CancelReply::Running),
        words: cancel_words,
    };
    call.end(globals, client, ids, client.cancel(ids).await).await
}

/// Retries jobs by hand. Fails when one of them could not be retried, after telling what became of each.
pub(crate) async fn retry(globals: &Globals, client: &Client, ids: &[JobId]) -> Outcome {
    let call = Call {
        action: "jobs.retry",
        edit: None,
        done: "retried",
        not_done: "not_retried",
        is_done: |reply| *reply == RetryReply::Retried,
        words: retry_words,
    };
    call.end(globals, client, ids, client.retry(ids).await).await
}

/// Changes jobs. Fails when one of them was left alone, after telling what became of each.
pub(crate) async fn edit(globals: &Globals, client: &Client, ids: &[JobId], edit: &JobEdit) -> Outcome {
    let call = Call {
        action: "jobs.edit",
        edit: Some(edit),
        done: "edited",
        not_done: "not_edited",
        is_done: |reply| *reply == EditReply::Edited,
        words: edit_words,
    };
    call.end(globals, client, ids, client.edit(ids, edit).await).await
}

/// Removes jobs. Fails when one of them was left alone, after telling what became of each.
pub(crate) async fn delete(globals: &Globals, client: &Client, ids: &[JobId]) -> Outcome {
    let call = Call {
        action: "jobs.delete",
        edit: None,
        done: "deleted",
        not_done: "not_deleted",
        is_done: |reply| *reply == DeleteReply::Deleted,
        words: delete_words,
    };
    call.end(globals, client, ids, client.delete(ids).await).await
}

/// A call that names jobs and has a reply for each.
struct Call<'a, R> {
    /// What it is in the audit log.
    action: &'static str,
    /// What it changes, where it edits.
    edit: Option<&'a JobEdit>,
    /// What its jobs are then.
    done: &'static str,
    /// The code of the failure when one is not.
    not_done: &'static str,
    is_done: fn(&R) -> bool,
    words: fn(&R) -> Words,
}

/// The replies of a call with their jobs, or those that it had before it failed: what was done before an error is done.
fn had<'a, R: 'static>(ids: &[JobId], replies: &'a Result<Vec<R>, Error>) -> Vec<(JobId, &'a R)> {
    let ids = ids.iter().copied();
    match replies {
        Ok(replies) => ids.zip(replies).collect(),
        Err(error) => {
            ids.zip(error.replies()).filter_map(|(id, reply)| Some((id, reply.as_ref()?))).collect()
        }
    }
}

impl<R: 'static> Call<'_, R> {
    /// Notes which jobs were named and how many were changed, and tells what became of each.
    async fn end(
        &self,
        globals: &Globals,
        client: &Client,
        ids: &[JobId],
        replies: Result<Vec<R>, Error>,
    ) -> Outcome {
        let mut entry = AuditEntry::of_jobs(globals.actor(), self.action, ids).with_via("cli");
        if let Some(edit) = self.edit {
            entry = entry.with_edit(edit);
        }
        let had = had(ids, &replies);
        let done = had.iter().filter(|(_, reply)| (self.is_done)(reply)).count();
        let told: Vec<_> = had.iter().map(|(id, reply)| (*id, (self.words)(reply))).collect();
        entry.count = Some(done as u64).filter(|done| replies.is_ok() || *done > 0);
        let ended = globals.noted(client, entry, replies, |_| None).await;
        let printed = if ended.is_ok() || !told.is_empty() { tell(globals, &told) } else { Ok(()) };
        ended?;
        // A failure is one also where nobody reads any more what became of each.
        all_done(self.done, self.not_done, ids.len() - done, ids.len()).and(printed)
    }
}

/// A reply for machines and for people.
type Words = (&'static str, &'static str);

fn cancel_words(reply: &CancelReply) -> Words {
    match reply {
        CancelReply::Cancelled => ("cancelled", "cancelled"),
        CancelReply::Running => ("running", "is running; its worker was told to stop it"),
        CancelReply::Finished => ("finished", "was finished already"),
        CancelReply::NotFound => ("not_found", "does not exist, or its history was removed"),
    }
}

fn retry_words(reply: &RetryReply) -> Words {
    match reply {
        RetryReply::Retried => ("retried", "is available now"),
        RetryReply::Pending => ("pending", "waits or runs already and was left alone"),
        RetryReply::Completed => ("completed", "completed and is not run again"),
        RetryReply::KeyTaken => ("key_taken", "is unique, and another job has its key now"),
        RetryReply::NotFound => ("not_found", "does not exist, or its history was removed"),
    }
}

fn edit_words(reply: &EditReply) -> Words {
    match reply {
        EditReply::Edited => ("edited", "was changed"),
        EditReply::Running => ("running", "is running and was left alone"),
        EditReply::Finished => {
            ("finished", "is over and was left alone; retry says when a dead job runs again")
        }
        EditReply::Encrypted => {
            ("encrypted", "has encrypted args, which cannot be replaced, and was left alone")
        }
        EditReply::Expires => {
            ("expires", "expires before that time, so it would never run, and was left alone")
        }
        EditReply::AttemptsUsed => (
            "attempts_used",
            "has used that many attempts or more already, so it would have none left, and was left alone; `jobs show` says how many, and it can be retried, cancelled or deleted",
        ),
        EditReply::NotFound => ("not_found", "does not exist, or its history was removed"),
    }
}

fn delete_words(reply: &DeleteReply) -> Words {
    match reply {
        DeleteReply::Deleted => ("deleted", "was deleted"),
        DeleteReply::Running => ("running", "is running and was left alone; cancel it first"),
        DeleteReply::Completed => ("completed", "completed, and goes when its retention is over"),
        DeleteReply::NotFound => ("not_found", "does not exist, or its history was removed"),
    }
}

fn tell(globals: &Globals, told: &[(JobId, Words)]) -> Outcome {
    let answer: Vec<_> = told.iter().map(|(id, words)| json!({ "id": id, "reply": words.0 })).collect();
    globals.print(&answer, || {
        told.iter().fold(String::new(), |mut text, (id, words)| {
            let _ = writeln!(text, "job {id} {}", words.1);
            text
        })
    })
}

fn all_done(done: &str, code: &'static str, left: usize, of: usize) -> Outcome {
    match left {
        0 => Ok(()),
        _ => Err(Failure::failed(code, format!("{left} of {of} jobs were not {done}; see above for why"))
            .with("failed", left)
            .with("jobs", of)),
    }
}
