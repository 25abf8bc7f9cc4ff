use crate::{
    control::Control,
    database::Database,
    error::Effect,
    query::{Param, Query},
    schedule::storable,
};
use jiff::Timestamp;
use tokio_postgres::types::Type;
use windlass_core::{Args, DeleteReply, EditReply, JobEdit, JobId, Result, When};

const EDIT: Control<EditReply> = Control {
    name: "edit",
    sql: "SELECT {schema}.edit_job($1, $2, $3, $4, $5, $6, $7::json, true)",
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

/// As definitions of before have it.
const EDIT_BEFORE: Control<EditReply> =
    Control { sql: "SELECT {schema}.edit_job($1, $2, $3, $4, $5, $6, $7::json)", ..EDIT };

/// Whether edit_job tells what programs of before do not know.
const TELLS_ALL: &str = "SELECT to_regprocedure('{schema}.edit_job(bigint, timestamptz, double precision, text, integer, integer, json, boolean)')
    IS NOT NULL";

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
    let control = match db.caches.edit_tells_all.known() {
        Some(tells_all) => form(tells_all),
        None => control(db, &db.client(EDIT.name).await?).await?,
    };
    control.each(db, ids, &Terms::of(edit).params()).await
}

/// The same for one job on the caller's connection.
pub(crate) async fn edit_on(db: &Database, on: &impl Query, id: JobId, edit: &JobEdit) -> Result<EditReply> {
    control(db, on).await?.one_on(db, on, id, &Terms::of(edit).params()).await
}

/// How the definitions that are there are asked. A call that fails would end the transaction, which may be a user's.
async fn control(db: &Database, on: &impl Query) -> Result<&'static Control<EditReply>> {
    if let Some(tells_all) = db.caches.edit_tells_all.known() {
        return Ok(form(tells_all));
    }
    let row = on.query_one(&db.sql(TELLS_ALL), &[], Effect::Repeatable).await?;
    let tells_all = row.get(0);
    db.caches.edit_tells_all.note(tells_all);
    Ok(form(tells_all))
}

fn form(tells_all: bool) -> &'static Control<EditReply> {
    if tells_all { &EDIT } else { &EDIT_BEFORE }
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
