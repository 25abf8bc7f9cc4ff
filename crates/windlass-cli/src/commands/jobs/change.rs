use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
};
use serde_json::json;
use std::fmt::Write;
use windlass::{Args, CancelReply, Client, DeleteReply, EditReply, Error, JobEdit, JobId, RetryReply};

/// Cancels jobs. Fails when one of them was over or is unknown, after telling what became of each.
pub(crate) async fn cancel(globals: &Globals, client: &Client, ids: &[JobId]) -> Outcome {
    let replies = client.cancel(ids).await;
    let replies = noted(globals, client, "jobs.cancel", ids, replies, |reply| {
        [CancelReply::Cancelled, CancelReply::Running].contains(reply)
    })
    .await?;
    let told: Vec<_> = ids.iter().copied().zip(replies.iter().map(cancel_words)).collect();
    tell(globals, &told)?;
    let wanted = [CancelReply::Cancelled, CancelReply::Running];
    let left = replies.iter().filter(|reply| !wanted.contains(reply)).count();
    all_done("cancelled", "not_cancelled", left, ids.len())
}

/// Retries jobs by hand. Fails when one of them could not be retried, after telling what became of each.
pub(crate) async fn retry(globals: &Globals, client: &Client, ids: &[JobId]) -> Outcome {
    let replies = client.retry(ids).await;
    let replies =
        noted(globals, client, "jobs.retry", ids, replies, |reply| *reply == RetryReply::Retried).await?;
    let told: Vec<_> = ids.iter().copied().zip(replies.iter().map(retry_words)).collect();
    tell(globals, &told)?;
    let left = replies.iter().filter(|&&reply| reply != RetryReply::Retried).count();
    all_done("retried", "not_retried", left, ids.len())
}

/// Changes jobs. Fails when one of them was left alone, after telling what became of each.
pub(crate) async fn edit(globals: &Globals, client: &Client, ids: &[JobId], edit: &JobEdit) -> Outcome {
    let replies = client.edit(ids, edit).await;
    let replies =
        noted(globals, client, "jobs.edit", ids, replies, |reply| *reply == EditReply::Edited).await?;
    let told: Vec<_> = ids.iter().copied().zip(replies.iter().map(edit_words)).collect();
    tell(globals, &told)?;
    let left = replies.iter().filter(|&&reply| reply != EditReply::Edited).count();
    all_done("edited", "not_edited", left, ids.len())
}

/// Removes jobs. Fails when one of them was left alone, after telling what became of each.
pub(crate) async fn delete(globals: &Globals, client: &Client, ids: &[JobId]) -> Outcome {
    let replies = client.delete(ids).await;
    let replies =
        noted(globals, client, "jobs.delete", ids, replies, |reply| *reply == DeleteReply::Deleted).await?;
    let told: Vec<_> = ids.iter().copied().zip(replies.iter().map(delete_words)).collect();
    tell(globals, &told)?;
    let left = replies.iter().filter(|&&reply| reply != DeleteReply::Deleted).count();
    all_done("deleted", "not_deleted", left, ids.len())
}

/// Notes which jobs were named, and how many were changed.
async fn noted<R>(
    globals: &Globals,
    client: &Client,
    action: &str,
    ids: &[JobId],
    replies: Result<Vec<R>, Error>,
    is_done: impl Fn(&R) -> bool,
) -> Result<Vec<R>, Error> {
    let target = match ids {
        [id] => format!("job {id}"),
        _ => format!("{} jobs", ids.len()),
    };
    let named: Vec<_> = ids.iter().map(ToString::to_string).collect();
    let mut entry = globals.entry(action, &target);
    entry.filter = Args::of(&json!({ "ids": named })).ok().filter(|_| ids.len() > 1);
    let done = |replies: &Vec<R>| Some(replies.iter().filter(|reply| is_done(reply)).count() as u64);
    globals.noted(client, entry, replies, done).await
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
