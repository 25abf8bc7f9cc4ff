use crate::{control::Control, database::Database, schedule::storable};
use tokio_postgres::types::Type;
use windlass_core::{DeleteReply, EditReply, JobEdit, JobId, Limits, Result, When};

const EDIT: Control<EditReply> = Control {
    name: "edit",
    sql: "SELECT {schema}.edit_job($1, $2, $3, $4, $5, $6, $7::json)",
    read: |word| match word {
        "edited" => Some(EditReply::Edited),
        "running" => Some(EditReply::Running),
        "finished" => Some(EditReply::Finished),
        "encrypted" => Some(EditReply::Encrypted),
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
    let (at, delay) = match edit.when() {
        Some(When::At(at)) => (Some(storable(at)), None),
        Some(When::After(delay)) => (None, Some(delay.min(Limits::LONGEST).as_secs_f64())),
        Some(_) => (None, Some(0.0)),
        None => (None, None),
    };
    let priority = edit.priority().map(i32::from);
    let (attempts, args) = (edit.max_attempts().map(i32::from), edit.args().map(|args| args.as_str()));
    EDIT.each(
        db,
        ids,
        &[
            (&at, Type::TIMESTAMPTZ),
            (&delay, Type::FLOAT8),
            (&edit.queue(), Type::TEXT),
            (&priority, Type::INT4),
            (&attempts, Type::INT4),
            (&args, Type::TEXT),
        ],
    )
    .await
}
