//! How slots are divided among workers: arithmetic only. The rules are those of PostgreSQL's `61_slots.sql`, and told there.

use crate::clock::Micros;

/// How long a turn lasts at least, where there are more workers than slots.
const TURN: Micros = 1_000_000;

/// The share of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharer {
    pub(crate) worker: i32,
    pub(crate) slots: i64,
    pub(crate) want: i64,
    pub(crate) wanted: bool,
    /// Since when it has slots, or waits for the first.
    pub(crate) since: Micros,
    /// Whether its wish counts: who has been silent for half a lease holds its slots and nothing else.
    pub(crate) asks: bool,
}

/// Slots divided among all who ask: each gets what it wants up to the level, `spare` of those who want more get one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    pub(crate) level: i64,
    pub(crate) spare: i64,
}

impl Division {
    /// `None`: there is enough for all.
    fn of(slots: i64, mut wants: Vec<i64>) -> Option<Self> {
        wants.sort_unstable();
        let mut rest = slots.max(0);
        for (nth, want) in wants.iter().enumerate() {
            let wanting = (wants.len() - nth) as i64;
            if want * wanting > rest {
                return Some(Self { level: rest / wanting, spare: rest % wanting });
            }
            rest -= want;
        }
        None
    }
}

/// What others leave.
pub(crate) struct Room {
    /// Slots that nobody else has.
    pub(crate) free: i64,
    /// Slots that may be divided among those who ask.
    divisible: i64,
    /// So many wait for their first.
    starving: i64,
}

impl Room {
    pub(crate) fn of(limit: i64, others: &[Sharer]) -> Self {
        let sum =
            |of: &dyn Fn(&&Sharer) -> bool| others.iter().filter(of).map(|other| other.slots).sum::<i64>();
        Self {
            free: limit - sum(&|_| true),
            divisible: limit - sum(&|other| !other.asks),
            starving: others.iter().filter(|other| other.asks && other.slots == 0).count() as i64,
        }
    }

    pub(crate) fn division(&self, want: i64, others: &[Sharer]) -> Option<Division> {
        let wants = others.iter().filter(|other| other.asks).map(|other| other.want);
        Division::of(self.divisible, wants.chain((want > 0).then_some(want)).collect())
    }

    /// The level or one more. Where there are more workers than slots they take turns.
    pub(crate) fn most(
        &self,
        division: Division,
        mine: Option<Sharer>,
        now: Micros,
        me: i32,
        others: &[Sharer],
    ) -> i64 {
        let Division { level, spare } = division;
        let had = mine.map_or(0, |mine| mine.slots);
        let since = mine.map_or(now, |mine| mine.since);
        let above = others.iter().filter(|other| other.asks && other.slots > level).count() as i64;
        let is_before =
            |other: &&Sharer| other.asks && other.slots == 0 && (other.since, other.worker) < (since, me);
        let before = others.iter().filter(is_before).count() as i64;
        let turn_is_over =
            level == 0 && had > 0 && self.starving > self.free - had && is_long_since(since, now);
        let one_more = if turn_is_over || above >= spare {
            0
        } else {
            i64::from(level > 0 || had > 0 || above + before < spare)
        };
        level + one_more
    }
}

/// After the clock was set back nobody knows.
pub(crate) fn is_long_since(since: Micros, now: Micros) -> bool {
    !(since..=since.saturating_add(TURN)).contains(&now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_divided() {
        assert_eq!(Division::of(10, vec![3, 7]), None);
        assert_eq!(Division::of(10, vec![4, 7]), Some(Division { level: 6, spare: 0 }));
        assert_eq!(Division::of(10, vec![10, 1, 20, 10]), Some(Division { level: 3, spare: 0 }));
        assert_eq!(Division::of(5, vec![9, 9]), Some(Division { level: 2, spare: 1 }));
        assert_eq!(Division::of(2, vec![1, 1, 1]), Some(Division { level: 0, spare: 2 }));
        assert_eq!(Division::of(-3, vec![1]), Some(Division { level: 0, spare: 0 }));
        assert_eq!(Division::of(0, vec![]), None);
    }
}
