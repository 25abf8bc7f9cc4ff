//! A unique job that is enqueued by itself: it goes with others that come at the same time, as plain ones do.

use crate::{
    batch::queues_of,
    database::Database,
    error::{Effect, is_lock_failure},
    group_commit::Single,
    lane::lanes_on,
    new_row::{attempts, expires_by_database},
    query::{Param, Query},
    row::Json,
    schedule::schedule,
    unique::{attributes, enqueue_unique, reply},
    unique_terms::Terms,
};
use jiff::Timestamp;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio_postgres::types::{ToSql, Type};
use windlass_core::{
    Conflict, EnqueuedUnique, Error, ErrorKind, NewJob, OnConflict, Result, UniqueBatch, UniqueKey,
};

const PUT: &str = "SELECT ids, fates FROM {schema}.put_unique_singles($1::text[]::uuid[], $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// A checked batch in which one unique job stands for all.
#[derive(Clone)]
pub(crate) struct UniqueSingle {
    batch: Arc<UniqueBatch>,
    key: UniqueKey,
}

impl UniqueSingle {
    /// The batch back unless it is one that can go with others.
    pub(crate) fn of(batch: UniqueBatch) -> Result<Self, UniqueBatch> {
        match (&*batch.jobs, &*batch.keys) {
            // A replacement waits for the lanes of the jobs that it replaces, in no order.
            ([job], [Some(key)])
                if !matches!(rule(job), OnConflict::Replace { .. }) && !expires_by_database(job) =>
            {
                let key = *key;
                Ok(Self { batch: Arc::new(batch), key })
            }
            _ => Err(batch),
        }
    }

    /// One for each job of the call, of which this one may stand for several.
    pub(crate) fn replies(&self, stored: EnqueuedUnique) -> Vec<EnqueuedUnique> {
        self.batch.replies(&[stored])
    }

    fn job(&self) -> &NewJob {
        &self.batch.jobs[0]
    }

    /// What its caller is told. Whoever asked for an error gets it in the place of `Kept`.
    fn answer(&self, stored: EnqueuedUnique) -> Result<EnqueuedUnique> {
        match (rule(self.job()), stored.conflict) {
            (OnConflict::Error, Some(_)) => Err(self.batch.conflict(0, stored.id)),
            _ => Ok(stored),
        }
    }
}

impl Single for UniqueSingle {
    type Stored = EnqueuedUnique;
    type Company = HashSet<UniqueKey>;

    fn bytes(&self) -> usize {
        self.job().args().len()
    }

    /// Another of its key may be there if that one's answer is enough.
    fn joins(&self, company: &mut HashSet<UniqueKey>) -> bool {
        company.insert(self.key) || matches!(rule(self.job()), OnConflict::Keep | OnConflict::Error)
    }

    async fn alone(&self, db: &Database) -> Result<EnqueuedUnique> {
        Ok(enqueue_unique(db, &self.batch).await?[0])
    }

    async fn quickly(&self, db: &Database) -> Result<Option<EnqueuedUnique>> {
        if db.is_pooled_by_transaction() {
            return self.alone(db).await.map(Some);
        }
        match put(db, &[self]).await {
            Ok(stored) => self.answer(stored[0]).map(Some),
            Err(error) if Self::is_of_one(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn together(db: &Database, calls: &[Self]) -> Result<Vec<Result<EnqueuedUnique>>> {
        let (mut first, mut places) = (Vec::new(), HashMap::new());
        for call in calls {
            places.entry(call.key).or_insert_with(|| {
                first.push(call);
                first.len() - 1
            });
        }
        let stored = put(db, &first).await?;
        let mut answered = vec![false; first.len()];
        let answer = |call: &Self| {
            let place = places[&call.key];
            let EnqueuedUnique { id, conflict } = stored[place];
            // Whoever comes after the first finds the job that this one left.
            let later = std::mem::replace(&mut answered[place], true);
            call.answer(EnqueuedUnique { id, conflict: if later { Some(Conflict::Kept) } else { conflict } })
        };
        Ok(calls.iter().map(answer).collect())
    }

    /// Also when one waited for the transaction of somebody else, and when the schema is older than the statement.
    fn is_of_one(error: &Error) -> bool {
        error.is_invalid_input()
            || matches!(
                error.kind(),
                ErrorKind::Internal | ErrorKind::SchemaMissing | ErrorKind::PermissionDenied
            )
            || is_lock_failure(error)
    }
}

fn rule(job: &NewJob) -> OnConflict {
    job.unique().map(windlass_core::Unique::conflict_rule).unwrap_or_default()
}

/// One statement, one round trip. No two have one key.
async fn put(db: &Database, calls: &[&UniqueSingle]) -> Result<Vec<EnqueuedUnique>> {
    let connection = db.client_for("enqueue_unique", calls.len()).await?;
    let jobs: Vec<NewJob> = calls.iter().map(|call| call.job().clone()).collect();
    let Some(lanes) = lanes_on(db, &connection, &jobs).await? else {
        return Err(Error::new(ErrorKind::Internal, "unique jobs go together behind a pooler"));
    };
    let watch = connection.watch_commit();
    let stored = put_on(db, &connection, calls, &lanes).await?;
    watch.end()?;
    Ok(stored)
}

/// On the caller's connection.
pub(crate) async fn put_on(
    db: &Database,
    on: &impl Query,
    calls: &[&UniqueSingle],
    lanes: &[i32],
) -> Result<Vec<EnqueuedUnique>> {
    let jobs: Vec<NewJob> = calls.iter().map(|call| call.job().clone()).collect();
    let terms: Vec<Terms> = calls.iter().map(|call| Terms::of(call.job(), Some(call.key))).collect();
    let keys: Vec<Option<&str>> = terms.iter().map(|terms| terms.key.as_deref()).collect();
    let finished: Vec<bool> = terms.iter().map(|terms| terms.until_finished).collect();
    let windows: Vec<Option<i64>> = terms.iter().map(|terms| terms.window).collect();
    let rules: Vec<i16> = jobs.iter().map(|job| i16::from(rule(job) == OnConflict::Extend)).collect();
    let kinds: Vec<&str> = jobs.iter().map(NewJob::kind).collect();
    let args: Vec<Json<'_>> = jobs.iter().map(|job| Json(job.args().as_str())).collect();
    let most: Vec<i16> = jobs.iter().map(attempts).collect();
    let attributes: Vec<String> = jobs.iter().map(attributes).collect();
    let (due, delays): (Vec<Option<Timestamp>>, Vec<Option<i64>>) =
        jobs.iter().map(|job| schedule(job.when())).unzip();
    let queues = queues_of(&jobs);
    let params: [Param<'_>; 12] = [
        (&keys as &(dyn ToSql + Sync), Type::TEXT_ARRAY),
        (&finished, Type::BOOL_ARRAY),
        (&windows, Type::INT8_ARRAY),
        (&rules, Type::INT2_ARRAY),
        (&lanes, Type::INT4_ARRAY),
        (&queues, Type::TEXT),
        (&kinds, Type::TEXT_ARRAY),
        (&args, Type::JSON_ARRAY),
        (&most, Type::INT2_ARRAY),
        (&attributes, Type::TEXT_ARRAY),
        (&due, Type::TIMESTAMPTZ_ARRAY),
        (&delays, Type::INT8_ARRAY),
    ];
    let row = on.query_one(&db.sql(PUT), &params, Effect::Write).await?;
    let (ids, fates): (Vec<i64>, Vec<i16>) = (row.get(0), row.get(1));
    Ok(ids.into_iter().zip(fates).map(|(id, fate)| reply(id, fate)).collect())
}
