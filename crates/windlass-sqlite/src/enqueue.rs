//! Enqueue: a batch is packed into one buffer where it is called, and appended by the writer.

mod later;

use crate::{
    clock::{Micros, micros, timestamp},
    error::Outcome,
    position,
    tx::{Count, Tx},
};
use later::Later;
use std::collections::HashMap;
use windlass_core::{Attributes, JobId, NewJob, When};

const APPEND: &str =
    "INSERT INTO job (pos, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
    VALUES (?1, ?2, ?3, 0, ?4, 0, ?5, ?6)";

/// Jobs on their way to the writer, without an allocation per job.
pub(crate) struct Batch {
    args: String,
    jobs: Vec<Packed>,
    lanes: Vec<(String, i16)>,
    kinds: Vec<String>,
    /// Whether any of the jobs has attributes.
    attributed: bool,
}

struct Packed {
    /// Where its args end in the buffer; they start where those of the job before end.
    args_end: usize,
    /// Indexes into the batch's lists.
    lane: usize,
    kind: usize,
    max_attempts: u16,
    when: When,
    attributes: Option<Box<Attributes>>,
}

impl Packed {
    /// The attributes as the store keeps them, when it is `now`.
    fn stored_attributes(&self, now: Micros) -> Option<String> {
        self.attributes.as_ref().map(|attributes| attributes.received(timestamp(now)).to_json())
    }
}

impl Batch {
    /// Copies checked jobs.
    pub(crate) fn pack(jobs: &[NewJob]) -> Self {
        let mut args = String::with_capacity(jobs.iter().map(|job| job.args().len()).sum());
        let (mut lanes, mut kinds) = (Interner::default(), Interner::default());
        let jobs: Vec<_> = jobs
            .iter()
            .map(|job| {
                args.push_str(job.args().as_str());
                Packed {
                    args_end: args.len(),
                    lane: lanes.index((job.queue(), job.priority())),
                    kind: kinds.index(job.kind()),
                    max_attempts: job.max_attempts(),
                    when: job.when(),
                    attributes: job.attributes().map(|attributes| Box::new(attributes.clone())),
                }
            })
            .collect();
        let lanes = lanes.values.into_iter().map(|(queue, priority)| (queue.to_owned(), priority)).collect();
        let kinds = kinds.values.into_iter().map(str::to_owned).collect();
        let attributed = jobs.iter().any(|job| job.attributes.is_some());
        Self { args, jobs, lanes, kinds, attributed }
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Appends the batch, all or none, and returns the ids: consecutive, in order.
    pub(crate) fn append(&self, tx: &mut Tx<'_>) -> Outcome<Vec<JobId>> {
        let lanes = self.find_lanes(tx)?;
        let mut append = tx.conn.prepare_cached(APPEND)?;
        append.raw_bind_parameter(5, tx.now)?;
        let (mut ids, mut args_start, mut bound) = (Vec::with_capacity(self.jobs.len()), 0, None);
        if !self.attributed {
            append.raw_bind_parameter(6, None::<&str>)?;
        }
        let mut appended = vec![0_i64; lanes.len()];
        let mut later: Option<Later<'_, '_>> = None;
        for job in &self.jobs {
            let args = &self.args[args_start..job.args_end];
            args_start = job.args_end;
            let id = tx.next_sequence()?;
            ids.push(JobId(id));
            if let Some(at) = due(job.when, tx.now) {
                let later = match &mut later {
                    Some(later) => later,
                    None => later.insert(Later::new(tx, self, &lanes)?),
                };
                later.add(tx, id, at, job, args)?;
                continue;
            }
            // Bindings stay from row to row; most rows of a batch differ in two of them only.
            if bound != Some((job.kind, job.max_attempts)) {
                append.raw_bind_parameter(2, self.kinds[job.kind].as_str())?;
                append.raw_bind_parameter(4, job.max_attempts)?;
                bound = Some((job.kind, job.max_attempts));
            }
            let pos = position::at(lanes[job.lane], id);
            tx.note_lane(pos)?;
            append.raw_bind_parameter(1, pos)?;
            append.raw_bind_parameter(3, args)?;
            if self.attributed {
                append.raw_bind_parameter(6, job.stored_attributes(tx.now))?;
            }
            append.raw_execute()?;
            appended[job.lane] += 1;
        }
        if let Some(mut later) = later {
            later.end(tx)?;
        }
        for (lane, appended) in lanes.into_iter().zip(appended).filter(|(_, appended)| *appended > 0) {
            tx.count(lane, Count::Available, appended);
        }
        Ok(ids)
    }

    fn find_lanes(&self, tx: &mut Tx<'_>) -> Outcome<Vec<i32>> {
        let numbers = self.lanes.iter().map(|(queue, priority)| {
            let queue = tx.queue(queue)?;
            tx.lane(queue, *priority)
        });
        numbers.collect()
    }
}

/// When a job has to wait for its time: until when.
pub(crate) fn due(when: When, now: Micros) -> Option<Micros> {
    let at = match when {
        When::At(at) => at.as_microsecond(),
        When::After(delay) => now.saturating_add(micros(delay)),
        _ => return None,
    };
    (at > now).then_some(at)
}

/// Distinct values in order of appearance. Asks the last one first: batches are mostly uniform.
#[derive(Default)]
struct Interner<T> {
    values: Vec<T>,
    indexes: HashMap<T, usize>,
    last: usize,
}

impl<T: Copy + Eq + std::hash::Hash> Interner<T> {
    fn index(&mut self, value: T) -> usize {
        if self.values.get(self.last) != Some(&value) {
            let values = &mut self.values;
            self.last = *self.indexes.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() - 1
            });
        }
        self.last
    }
}
