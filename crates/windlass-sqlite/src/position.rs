//! Where a job is in the log: its lane in the high bits, its place in the one sequence in the low ones.

/// Bits of the sequence: 3.5 * 10^13 positions, four years at 300,000 jobs a second.
pub(crate) const SEQUENCE_BITS: u32 = 45;
/// The largest sequence number. The SQL files repeat it where they take an id out of a position.
pub(crate) const SEQUENCE_MAX: i64 = (1 << SEQUENCE_BITS) - 1;
/// The largest lane number: what is left of a positive 64-bit integer.
pub(crate) const LANE_MAX: i32 = (1 << (63 - SEQUENCE_BITS)) - 2;

/// The position of `sequence` in `lane`.
pub(crate) const fn at(lane: i32, sequence: i64) -> i64 {
    ((lane as i64) << SEQUENCE_BITS) | sequence
}

/// The lane number of a position, which may be a direct twin.
pub(crate) const fn lane_of(pos: i64) -> i32 {
    (pos >> SEQUENCE_BITS) as i32
}

/// The sequence number of a position.
pub(crate) const fn sequence_of(pos: i64) -> i64 {
    pos & SEQUENCE_MAX
}

/// The twin of a lane that holds jobs handed out past the log.
pub(crate) const fn direct(lane: i32) -> i32 {
    lane | 1
}

/// The lane itself, whether given it or its twin.
pub(crate) const fn base(lane: i32) -> i32 {
    lane & !1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_fit_and_come_back() {
        for lane in [2, 3, LANE_MAX, direct(LANE_MAX)] {
            for sequence in [1, SEQUENCE_MAX] {
                let pos = at(lane, sequence);
                assert!(pos > 0);
                assert_eq!((lane_of(pos), sequence_of(pos)), (lane, sequence));
            }
        }
        assert!(at(2, SEQUENCE_MAX) < at(3, 1));
    }

    #[test]
    fn the_sql_files_use_the_same_mask() {
        assert_eq!(SEQUENCE_MAX, 35_184_372_088_831);
    }
}
