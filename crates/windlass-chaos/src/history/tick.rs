use jiff::Timestamp;

/// Bits of a key that say the second of its tick.
const SECOND_BITS: u32 = 34;

/// A tick of a schedule of the run. Jobs of schedules have no producer who numbers them: the key of one says which tick it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick {
    /// The number of the schedule in the run.
    pub schedule: u32,
    /// When, in seconds since 1970; 0: no tick, somebody ran the schedule by hand.
    pub second: i64,
}

impl Tick {
    /// What the key of each job of a schedule begins from: the args that its declaration has.
    pub fn base(schedule: u32) -> i64 {
        i64::MIN + (i64::from(schedule) << SECOND_BITS)
    }

    /// The key of its job.
    ///
    /// ```
    /// # use windlass_chaos::history::Tick;
    /// let tick = Tick { schedule: 999, second: 1_800_000_000 };
    /// assert_eq!(Tick::of_key(tick.key()), Some(tick));
    /// assert_eq!(Tick::of_key(7 << 40), None, "a job that a producer enqueued");
    /// ```
    pub fn key(self) -> i64 {
        Self::base(self.schedule) + self.second
    }

    /// The tick that a job with this key is of; none: the job is no schedule's.
    pub fn of_key(key: i64) -> Option<Self> {
        // Minus one is the key of jobs that have none.
        if key >= -1 {
            return None;
        }
        let bits = key - i64::MIN;
        let schedule = u32::try_from(bits >> SECOND_BITS).ok()?;
        Some(Self { schedule, second: bits & ((1 << SECOND_BITS) - 1) })
    }

    /// The key of a job with these args and this meta.
    pub(crate) fn key_in(args_key: i64, meta: Option<&str>) -> i64 {
        args_key.saturating_add(meta.and_then(second).unwrap_or(0))
    }
}

/// The second of the tick that a job's meta names.
fn second(meta: &str) -> Option<i64> {
    let meta: serde_json::Value = serde_json::from_str(meta).ok()?;
    let at: Timestamp = meta.get("windlass.tick")?.as_str()?.parse().ok()?;
    Some(at.as_second())
}
