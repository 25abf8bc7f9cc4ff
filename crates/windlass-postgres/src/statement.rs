//! Jobs that one statement stores.

use crate::{
    batch::{COPY_FROM, queues_of},
    connection::Connection,
    database::Database,
    error::Effect,
    group_commit::Single,
    lane::lanes_on,
    new_row::{Place, attempts},
    query::{Param, Query},
    row::Json,
    schedule::schedule,
    segment::segment,
    texts::ID_BLOCK,
    unique::attributes,
};
use jiff::Timestamp;
use std::borrow::Borrow;
use tokio_postgres::types::Type;
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result, When};

/// The most jobs of a call that one statement stores, and the most bytes of their args, unless they are few.
const MOST_TOGETHER: usize = 500;
const MOST_BYTES: usize = 1024 * 1024;

/// A job that is enqueued by itself, and where it goes.
#[derive(Clone)]
pub(crate) struct Placed {
    pub(crate) job: NewJob,
    pub(crate) place: Place,
}

impl Borrow<NewJob> for Placed {
    fn borrow(&self) -> &NewJob {
        &self.job
    }
}

impl Single for Placed {
    type Stored = JobId;
    type Company = Option<Place>;

    fn bytes(&self) -> usize {
        self.job.args().len()
    }

    fn joins(&self, company: &mut Option<Place>) -> bool {
        *company.get_or_insert(self.place) == self.place
    }

    async fn alone(&self, db: &Database) -> Result<JobId> {
        if is_plain(&self.job) {
            return insert_alone(db, &self.job).await;
        }
        Ok(insert_own(db, std::slice::from_ref(self)).await?[0])
    }

    async fn together(db: &Database, jobs: &[Self]) -> Result<Vec<Result<JobId>>> {
        Ok(insert_own(db, jobs).await?.into_iter().map(Ok).collect())
    }
}

/// Whether a job is available at once and has no attributes.
pub(crate) fn is_plain(job: &NewJob) -> bool {
    job.when() == When::Now && job.attributes().is_none()
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

/// Several of one place, one round trip.
async fn insert_own(db: &Database, jobs: &[Placed]) -> Result<Vec<JobId>> {
    let connection = db.client_for("enqueue", jobs.len()).await?;
    let segment = segment(db, &connection).await?;
    let Some(lanes) = lanes_on(db, &connection, jobs).await? else {
        return Err(Error::new(ErrorKind::Internal, "jobs go together behind a pooler"));
    };
    insert_on(db, &connection, &Together { segment, lanes: &lanes, jobs, place: jobs[0].place }).await
}

/// On a connection, a transaction of their own.
pub(crate) async fn insert_on<J: Borrow<NewJob> + Sync>(
    db: &Database,
    connection: &Connection,
    together: &Together<'_, J>,
) -> Result<Vec<JobId>> {
    let watch = connection.watch_commit();
    let ids = together.insert(db, connection, Effect::Write).await?;
    watch.end()?;
    Ok(ids)
}

/// Jobs that one statement can store, with their lanes and the segment of those that are available at once.
pub(crate) struct Together<'a, J> {
    segment: usize,
    lanes: &'a [i32],
    jobs: &'a [J],
    place: Place,
}

impl<'a> Together<'a, NewJob> {
    /// Where that is the cheapest way: COPY needs four more round trips. One client, 2 cores, fsync on, jobs/s by COPY and by one statement: 10 at once
    /// 20k and 42k, 100 137k and 206k, 200 216k and 258k, 500 292k and 309k, 1,000 the same.
    pub(crate) fn of(jobs: &'a [NewJob], segment: usize, lanes: &'a [i32]) -> Option<Self> {
        let bytes = || jobs.iter().map(|job| job.args().len()).sum::<usize>();
        let in_blocks = || jobs.len() <= MOST_TOGETHER && is_one(lanes) && bytes() <= MOST_BYTES;
        let place = if jobs.len() < COPY_FROM || in_blocks() { Place::of_all(jobs) } else { None };
        Some(Self { segment, lanes, jobs, place: place? })
    }
}

fn is_one(lanes: &[i32]) -> bool {
    lanes.iter().all(|lane| *lane == lanes[0])
}

impl<J: Borrow<NewJob> + Sync> Together<'_, J> {
    /// Jobs of one lane that are available at once share blocks of ids, of which only the first has an entry in the index of ids: a statement
    /// of ten took 109 us of the server with a block for each job, and takes 98.
    pub(crate) async fn insert(&self, db: &Database, on: &impl Query, effect: Effect) -> Result<Vec<JobId>> {
        let Self { segment, lanes, jobs, place } = self;
        let each = || jobs.iter().map(Borrow::borrow);
        let most: Vec<i16> = each().map(attempts).collect();
        let kinds: Vec<&str> = each().map(NewJob::kind).collect();
        let args: Vec<Json<'_>> = each().map(|job| Json(job.args().as_str())).collect();
        let queues = queues_of(each());
        let attributed: Vec<String> =
            match each().any(|job| job.attributes().is_some()) || *place == Place::Waiting {
                true => each().map(attributes).collect(),
                false => Vec::new(),
            };
        let (due, delays): (Vec<Option<Timestamp>>, Vec<Option<i64>>);
        let in_blocks = *place == Place::Log && is_one(lanes);
        let to: Param<'_> = if in_blocks { (&lanes[0], Type::INT4) } else { (lanes, Type::INT4_ARRAY) };
        let mut params = vec![
            to,
            (&most as _, Type::INT2_ARRAY),
            (&kinds as _, Type::TEXT_ARRAY),
            (&args as _, Type::JSON_ARRAY),
            (&queues as _, Type::TEXT),
        ];
        if !attributed.is_empty() {
            params.push((&attributed, Type::TEXT_ARRAY));
        }
        let texts = if attributed.is_empty() { &db.texts.insert_plain } else { &db.texts.insert_attributed };
        let text = match place {
            Place::Waiting => {
                (due, delays) = each().map(|job| schedule(job.when())).unzip();
                params.extend([(&due as _, Type::TIMESTAMPTZ_ARRAY), (&delays as _, Type::INT8_ARRAY)]);
                &db.texts.insert_scheduled
            }
            Place::Log if !in_blocks => &texts.apart[*segment],
            Place::Log if jobs.len() <= ID_BLOCK => &texts.block[*segment],
            Place::Log => &texts.blocks[*segment],
        };
        let rows = on.query(text, &params, effect).await?;
        let mut ids: Vec<_> = rows.iter().map(|row| JobId(row.get(0))).collect();
        ids.sort_unstable(); // They ascend with the jobs, in whatever order the rows were written.
        Ok(ids)
    }
}
