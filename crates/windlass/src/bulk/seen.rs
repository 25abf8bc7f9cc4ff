use std::collections::HashMap;
use windlass_core::JobId;

/// How many ids share a word.
const WORD: i64 = u64::BITS as i64;

/// Ids of jobs that were met. Those of a store follow each other, so that 64 of them take the room of one or two: ten million were some hundred
/// megabytes, and are a few.
#[derive(Default)]
pub(super) struct Seen(HashMap<i64, u64>);

impl Seen {
    /// Notes one; whether it is new.
    pub(super) fn insert(&mut self, JobId(id): JobId) -> bool {
        let (word, bit) = (self.0.entry(id.div_euclid(WORD)).or_default(), 1 << id.rem_euclid(WORD));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_is_new_once_and_those_that_follow_each_other_take_little_room() {
        let (mut seen, mut known) = (Seen::default(), HashSet::new());
        let all = (1..100_000).chain([i64::MAX, i64::MAX - 64, 0, -1, -64, i64::MIN]).chain(63..200_000);
        for id in all.map(JobId) {
            assert_eq!(seen.insert(id), known.insert(id), "{id}");
        }
        assert!(seen.0.capacity() < known.len() / 20, "{} of {}", seen.0.capacity(), known.len());
    }
}
