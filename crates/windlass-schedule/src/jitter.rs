use jiff::Timestamp;
use std::time::Duration;

/// How much later than its tick a schedule fires: less than `most`, the same whoever asks.
///
/// ```
/// # use std::time::Duration;
/// let (tick, most) = ("2026-03-29T01:00:00Z".parse().unwrap(), Duration::from_secs(600));
/// let later = windlass_schedule::jitter("reports", tick, most);
/// assert!(later < most);
/// assert_eq!(later, windlass_schedule::jitter("reports", tick, most));
/// ```
pub fn jitter(name: &str, tick: Timestamp, most: Duration) -> Duration {
    let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return Duration::ZERO;
    }
    // FNV-1a over name and tick, then the finalizer of splitmix64, so that ticks close together spread.
    let bytes = name.bytes().chain(tick.as_microsecond().to_le_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Duration::from_micros((hash ^ (hash >> 31)) % micros)
}
