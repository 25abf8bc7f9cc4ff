//! The jobs of a claim whose ids are of a range. Those that were moved are looked for by their ids, or among the claim's jobs, whatever is fewer: ids of any
//! number of other jobs may lie between.

use crate::{error::Outcome, position};
use rusqlite::{Connection, OptionalExtension, Row};

const CLAIM: &str = "SELECT hi, open + completed FROM claim WHERE lo = ?1";

/// The same query in both ways; `?1` to `?6` are [`ClaimRange::params`].
pub(crate) struct Ways {
    pub(crate) by_id: &'static str,
    pub(crate) of_claim: &'static str,
}

/// Asks for these columns of the jobs that stand where they were appended, and for these of those that were moved.
macro_rules! jobs_of_range {
    ($unmoved:literal, $moved:literal, $rest:literal) => {
        $crate::claim_range::Ways {
            by_id: $crate::claim_range::jobs_of_range!(
                $unmoved,
                $moved,
                "INDEXED BY job_moved WHERE id",
                $rest
            ),
            of_claim: $crate::claim_range::jobs_of_range!($unmoved, $moved, "WHERE +id", $rest),
        }
    };
    ($unmoved:literal, $moved:literal, $way:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $unmoved,
            " FROM job WHERE pos BETWEEN max(?1, ?5) AND min(?2, ?6) AND id IS NULL UNION ALL SELECT ",
            $moved,
            " FROM job ",
            $way,
            " BETWEEN ?3 AND ?4 AND id IS NOT NULL AND pos BETWEEN ?1 AND ?2",
            $rest
        )
    };
}
pub(crate) use jobs_of_range;

/// Ids of a claim, and where it ends.
pub(crate) struct ClaimRange {
    lane: i32,
    hi: i64,
    first: i64,
    last: i64,
    by_id: bool,
}

impl ClaimRange {
    /// These ids of the claim that begins at `lo`.
    pub(crate) fn of(conn: &Connection, lo: i64, (first, last): (i64, i64)) -> Outcome<Self> {
        let claim = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (hi, jobs): (i64, i64) =
            conn.prepare_cached(CLAIM)?.query_one([lo], claim).optional()?.unwrap_or_default();
        let by_id = last.saturating_sub(first) < jobs;
        Ok(Self { lane: position::lane_of(lo), hi, first, last, by_id })
    }

    /// The query that looks at less.
    pub(crate) fn sql(&self, ways: &Ways) -> &'static str {
        if self.by_id { ways.by_id } else { ways.of_claim }
    }

    /// From this position of the claim on.
    pub(crate) fn params(&self, from: i64) -> [i64; 6] {
        let place = |id: i64| position::at(self.lane, id.clamp(0, position::SEQUENCE_MAX));
        [from, self.hi, self.first, self.last, place(self.first), place(self.last)]
    }
}
