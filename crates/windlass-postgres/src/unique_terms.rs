use crate::schedule::microseconds;
use serde::Serialize;
use windlass_core::{NewJob, OnConflict, UniqueKey, UniqueUntil};

/// How a job is unique, as the SQL functions take it.
#[derive(Serialize)]
pub(crate) struct Terms {
    pub(crate) key: Option<String>,
    pub(crate) until_finished: bool,
    /// In microseconds.
    pub(crate) window: Option<i64>,
    pub(crate) rule: i16,
    /// In microseconds.
    pub(crate) max_wait: Option<i64>,
}

impl Terms {
    pub(crate) fn of(job: &NewJob, key: Option<UniqueKey>) -> Self {
        let (until, rule) =
            job.unique().map_or_else(Default::default, |unique| (unique.until(), unique.conflict_rule()));
        let (rule, max_wait) = match rule {
            OnConflict::Keep => (0, None),
            OnConflict::Extend => (1, None),
            OnConflict::Replace { max_wait } => (2, max_wait.map(microseconds)),
            OnConflict::Error => (3, None),
        };
        let window = match until {
            UniqueUntil::Window(window) => Some(microseconds(window)),
            _ => None,
        };
        let key = key.map(|key| key.to_string());
        Self { key, until_finished: until == UniqueUntil::Finished, window, rule, max_wait }
    }
}
