//! What the keys of jobs are, which producers, scenarios and the checker agree on.

use std::time::Duration;
use windlass::Unique;

/// How many jobs of a key that is not serial may be held at once.
pub(crate) const KEY_LIMIT: usize = 2;

/// The key of the job with this number, of so many.
pub(crate) fn key_of(number: i64, keys: u32) -> u32 {
    // The upper half is the producer's.
    (number & 0xffff_ffff) as u32 % keys
}

/// The key of the job with this number where one key has nearly all of them.
pub(crate) fn key_beside_a_loud_one(number: i64, keys: u32) -> u32 {
    let number = number & 0xffff_ffff;
    if number % 16 == 0 { 1 + (number / 16) as u32 % (keys - 1) } else { 0 }
}

/// What it is called.
pub(crate) fn name_of(key: u32) -> String {
    format!("key {key}")
}

/// Whether the jobs of a key run one after the other.
pub(crate) fn is_serial(key: u32) -> bool {
    key % 2 == 1
}

/// Whether only so many jobs of a key start in a time, where a run has such keys.
pub(crate) fn has_rate(key: u32) -> bool {
    key % 4 == 2
}

/// What the jobs of number `unique` are unique by: among those of their queue, for there are two kinds.
pub(crate) fn unique_key(unique: u32) -> Unique {
    Unique::by_key(format!("unique-{unique}")).in_queue()
}

/// The same of jobs that are so for a while.
pub(crate) fn window_key(unique: u32, window: Duration) -> Unique {
    Unique::by_key(format!("window-{unique}")).in_queue().for_window(window)
}

/// The number of the unique key with this number of those whose jobs take each other's place, beyond all others.
pub(crate) fn replaced_number(key: u32) -> u32 {
    1_000 + key
}
