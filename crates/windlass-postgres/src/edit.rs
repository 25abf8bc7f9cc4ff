use crate::{
    control::Control,
    database::Database,
    query::{Param, Query},
    schedule::storable,
};
use jiff::Timestamp;
use tokio_postgres::types::Type;
use windlass_core::{Args, DeleteReply, EditReply, JobEdit, JobId, Result, When};

const EDIT: Control<EditReply> = Control {
    name: "edit",
    sql: "SELECT {schema}.edit_job($1, $2, $3, $4, $5, $6, $7::json)",
    read: |word| match word {
        "edited" => Some(EditReply::Edited),
        "running" => Some(EditReply::Running),
        "finished" => Some(EditReply::Finished),
        "encrypted" => Some(EditReply::Encrypted),
        "expires" => Some(EditReply::Expires),
        "attempts_used" => Some(EditReply::AttemptsUsed),
        "not_found" => Some(EditReply::NotFound),
        _ => None,
    },
};

pub(crate) const DELETE: Control<DeleteReply> = Control {
    name: "delete",
    sql: "SELECT {schema}.delete($1)",
    read: |word| match word {
        "deleted" => Some(DeleteReply::Deleted),
        "running" => Some(DeleteReply::Running),
        "completed" => Some(DeleteReply::Completed),
        "not_found" => Some(DeleteReply::NotFound),
        _ => None,
    },
};

/// Changes jobs; the edit was checked.
pub(crate) async fn edit(db: &Database, ids: &[JobId], edit: &JobEdit) -> Result<Vec<EditReply>> {
    EDIT.each(db, ids, &Terms::of(edit).params()).await
}

/// The same for one job on the caller's connection.
pub(crate) async fn edit_on(db: &Database, on: &impl Query, id: JobId, edit: &JobEdit) -> Result<EditReply> {
    EDIT.one_on(db, on, id, &Terms::of(edit).params()).await
}

/// An edit as `edit_job` takes it.
struct Terms<'a> {
    at: Option<Timestamp>,
    delay: Option<f64>,
    queue: Option<&'a str>,
    priority: Option<i32>,
    attempts: Option<i32>,
    args: Option<&'a str>,
}

impl<'a> Terms<'a> {
    fn of(edit: &'a JobEdit) -> Self {
        let (at, delay) = match edit.when() {
            Some(When::At(at)) => (Some(storable(at)), None),
            Some(When::After(delay)) => (None, Some(delay.as_secs_f64())),
            Some(_) => (None, Some(0.0)),
            None => (None, None),
        };
        let (priority, attempts) = (edit.priority().map(i32::from), edit.max_attempts().map(i32::from));
        Self { at, delay, queue: edit.queue(), priority, attempts, args: edit.args().map(Args::as_str) }
    }

    fn params(&self) -> [Param<'_>; 6] {
        [
            (&self.at, Type::TIMESTAMPTZ),
            (&self.delay, Type::FLOAT8),
            (&self.queue, Type::TEXT),
            (&self.priority, Type::INT4),
            (&self.attempts, Type::INT4),
            (&self.args, Type::TEXT),
        ]
    }
}
