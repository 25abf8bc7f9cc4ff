use crate::{claim::Reference, query::Param, row::Json};
use tokio_postgres::types::Type;
use windlass_core::{Completion, JobSet};

/// `settle`'s other parameters: completions, and the ranges of those that have some.
#[derive(Default)]
pub(crate) struct Completions {
    lanes: Vec<i32>,
    seqs: Vec<i64>,
    tokens: Vec<i32>,
    /// How many jobs the ranges name; `None`: the rest of the claim.
    counts: Vec<Option<i32>>,
    /// Which entry, from 1, each range belongs to.
    entries: Vec<i32>,
    lows: Vec<i64>,
    highs: Vec<i64>,
}

impl Completions {
    pub(crate) fn extend(&mut self, completions: &[Completion]) {
        for Completion { claim, jobs, count } in completions {
            let JobSet::Ranges(ranges) = jobs else {
                self.add((*claim).into(), None);
                continue;
            };
            let entry = self.add((*claim).into(), Some(i32::try_from(*count).unwrap_or(i32::MAX)));
            for &(low, high) in ranges {
                self.add_range(entry, low, high);
            }
        }
    }

    /// Adds an entry for so many jobs of a claim, or for the rest. Returns its number, from 1.
    pub(crate) fn add(&mut self, Reference { lane, seq, token }: Reference, count: Option<i32>) -> i32 {
        self.lanes.push(lane);
        self.seqs.push(seq);
        self.tokens.push(token);
        self.counts.push(count);
        i32::try_from(self.lanes.len()).unwrap_or(i32::MAX)
    }

    /// The parameters of `settle`.
    pub(crate) fn params<'a>(&'a self, worker: &'a i32, outcomes: &'a Option<Json<'a>>) -> Vec<Param<'a>> {
        vec![
            (worker, Type::INT4),
            (&self.lanes, Type::INT4_ARRAY),
            (&self.seqs, Type::INT8_ARRAY),
            (&self.tokens, Type::INT4_ARRAY),
            (&self.counts, Type::INT4_ARRAY),
            (&self.entries, Type::INT4_ARRAY),
            (&self.lows, Type::INT8_ARRAY),
            (&self.highs, Type::INT8_ARRAY),
            (outcomes, Type::JSON),
        ]
    }

    pub(crate) fn add_range(&mut self, entry: i32, low: i64, high: i64) {
        self.entries.push(entry);
        self.lows.push(low);
        self.highs.push(high);
    }
}
