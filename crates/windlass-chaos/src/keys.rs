//! What the keys of jobs are, which producers, scenarios and the checker agree on.

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
