use std::collections::HashMap;
use windlass::lend::LentJob;

/// How many numbers a job has: those of `FIELDS` in ts/batch_reader.ts.
const PER_JOB: usize = 11;

/// How many names are known at most: a worker of any kind may be lent jobs of any number of them.
const MOST_NAMES: usize = 1_000;

/// Names of kinds and queues, which cross the boundary once and are numbers from then on.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<String, usize>,
    /// What was asked for last, as a kind and as a queue: most jobs have those of the job before.
    last: [Option<(String, f64)>; 2],
}

/// What a name is of.
#[derive(Clone, Copy)]
enum Of {
    Kind,
    Queue,
}

impl Names {
    /// How many are known before an exchange: none where they had become too many, which are forgotten then.
    pub(crate) fn known(&mut self) -> usize {
        if self.known.len() >= MOST_NAMES {
            *self = Self::default();
        }
        self.known.len()
    }

    fn number(&mut self, of: Of, name: &str, new: &mut Vec<String>) -> f64 {
        match &self.last[of as usize] {
            Some((last, number)) if last == name => *number,
            _ => {
                let number = self.find(name, new);
                self.last[of as usize] = Some((name.to_owned(), number));
                number
            }
        }
    }

    fn find(&mut self, name: &str, new: &mut Vec<String>) -> f64 {
        let number = match self.known.get(name) {
            Some(number) => *number,
            None => {
                new.push(name.to_owned());
                self.known.insert(name.to_owned(), self.known.len());
                self.known.len() - 1
            }
        };
        number as f64
    }
}

/// The numbers of jobs, one job after the other. `ends` says where the args of each end, in UTF-16 units.
pub(crate) fn numbers(
    jobs: &[LentJob],
    ends: &[usize],
    names: &mut Names,
    new: &mut Vec<String>,
) -> Vec<f64> {
    let mut numbers = Vec::with_capacity(jobs.len() * PER_JOB);
    for (LentJob { ticket, batch, context, .. }, end) in jobs.iter().zip(ends) {
        // Tickets, ids and lengths are below 2^53.
        numbers.extend([
            ticket.0 as f64,
            context.id().0 as f64,
            *end as f64,
            names.number(Of::Kind, context.kind(), new),
            names.number(Of::Queue, context.queue(), new),
            context.attempt().into(),
            context.max_attempts().into(),
            context.priority().into(),
            context.enqueued_at().as_millisecond() as f64,
            context.crash_count().into(),
            batch.0 as f64,
        ]);
    }
    numbers
}
