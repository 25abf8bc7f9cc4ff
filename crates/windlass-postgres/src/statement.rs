//! Jobs that one statement stores, a transaction of its own.

use crate::{
    batch::queues_of, database::Database, error::Effect, group_commit::Single, lane::lanes_on,
    new_row::attempts, query::Param, query::Query, row::Json, segment::segment, texts::ID_BLOCK,
};
use tokio_postgres::types::Type;
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result};

/// A job that is available at once, without attributes.
impl Single for NewJob {
    type Stored = JobId;
    type Company = ();

    fn bytes(&self) -> usize {
        self.args().len()
    }

    fn joins(&self, (): &mut ()) -> bool {
        true
    }

    async fn alone(&self, db: &Database) -> Result<JobId> {
        insert_alone(db, self).await
    }

    async fn together(db: &Database, jobs: &[Self]) -> Result<Vec<Result<JobId>>> {
        Ok(insert_together(db, jobs).await?.into_iter().map(Ok).collect())
    }
}

/// One job, one round trip.
async fn insert_alone(db: &Database, job: &NewJob) -> Result<JobId> {
    let connection = db.client_for("enqueue", 1).await?;
    let segment = segment(db, &connection).await?;
    let lanes = lanes_on(db, &connection, std::slice::from_ref(job)).await?;
    let lane = lanes.and_then(|lanes| lanes.first().copied());
    let (queue, priority, attempts) = (job.queue(), i32::from(job.priority()), attempts(job));
    let (kind, args) = (job.kind(), Json(job.args().as_str()));
    let rest: [Param<'_>; 3] = [(&attempts, Type::INT2), (&kind, Type::TEXT), (&args, Type::JSON)];
    let [a, b, c] = rest;
    let to = (&queue as _, Type::TEXT);
    let watch = connection.watch_commit();
    let row = match &lane {
        Some(lane) => {
            let params = [(lane as _, Type::INT4), a, b, c, to];
            connection.query_one(&db.texts.insert[segment], &params, Effect::Write).await?
        }
        None => {
            let params = [to, (&priority as _, Type::INT4), a, b, c];
            connection.query_one(&db.texts.insert_named[segment], &params, Effect::Write).await?
        }
    };
    watch.end()?;
    Ok(JobId(row.get(0)))
}

/// Several jobs, one round trip. Those of one lane share blocks of ids, of which only the first has an entry in the index of ids: a
/// statement of ten took 109 us of the server with a block for each job, and takes 98.
async fn insert_together(db: &Database, jobs: &[NewJob]) -> Result<Vec<JobId>> {
    let connection = db.client_for("enqueue", jobs.len()).await?;
    let segment = segment(db, &connection).await?;
    let Some(lanes) = lanes_on(db, &connection, jobs).await? else {
        return Err(Error::new(ErrorKind::Internal, "jobs go together behind a pooler"));
    };
    let most: Vec<i16> = jobs.iter().map(attempts).collect();
    let kinds: Vec<&str> = jobs.iter().map(NewJob::kind).collect();
    let args: Vec<Json<'_>> = jobs.iter().map(|job| Json(job.args().as_str())).collect();
    let queues = queues_of(jobs);
    let blocks = i32::try_from(jobs.len().div_ceil(ID_BLOCK)).unwrap_or(i32::MAX);
    let one_lane = lanes.iter().all(|lane| *lane == lanes[0]);
    let to: Param<'_> = if one_lane { (&lanes[0], Type::INT4) } else { (&lanes, Type::INT4_ARRAY) };
    let mut params = vec![
        to,
        (&most as _, Type::INT2_ARRAY),
        (&kinds as _, Type::TEXT_ARRAY),
        (&args as _, Type::JSON_ARRAY),
        (&queues as _, Type::TEXT),
    ];
    let texts = match (one_lane, blocks) {
        (false, _) => &db.texts.insert_together,
        (true, 1) => &db.texts.insert_block,
        (true, _) => {
            params.push((&blocks as _, Type::INT4));
            &db.texts.insert_blocks
        }
    };
    let watch = connection.watch_commit();
    let rows = connection.query(&texts[segment], &params, Effect::Write).await?;
    watch.end()?;
    let mut ids: Vec<_> = rows.iter().map(|row| JobId(row.get(0))).collect();
    ids.sort_unstable(); // They ascend with the jobs, in whatever order the rows were written.
    Ok(ids)
}
