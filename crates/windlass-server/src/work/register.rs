use crate::problem::{Problem, wrong_at};
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};
use windlass::{
    Program,
    remote::{QueueConfig, RemoteSpec},
};

/// How long a worker may be silent, in seconds.
const LEASE: std::ops::RangeInclusive<u64> = 1..=3_600;
const DEFAULT_LEASE: u64 = 60;
const LONGEST_NAME: usize = 200;
const MOST_QUEUES: usize = 100;
const MOST_KINDS: usize = 1_000;
/// The longest time after its limit in which a worker may say what becomes of a job, in milliseconds.
const MOST_GRACE: u64 = 60_000;

/// What those are that come by HTTP.
const ENGINE: &str = concat!("HTTP ", env!("CARGO_PKG_VERSION"));

/// What a worker says of itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Register {
    name: Option<String>,
    program: Option<String>,
    app_version: Option<String>,
    queues: BTreeMap<String, usize>,
    #[serde(default)]
    kinds: Vec<String>,
    lease_s: Option<u64>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    timeouts_ms: BTreeMap<String, u64>,
    timeout_grace_ms: Option<u64>,
    #[serde(default)]
    pub(super) checkpoints: bool,
}

impl Register {
    /// `takes_encrypted`: whether the server has keys.
    pub(super) fn spec(self, actor: &str, takes_encrypted: bool) -> Result<RemoteSpec, Problem> {
        if let Some((field, what)) = self.wrong() {
            return Err(wrong_at(field, what));
        }
        let queues = self.queues.into_iter().map(|(queue, concurrency)| QueueConfig { queue, concurrency });
        let timeouts = self.timeouts_ms.into_iter().map(|(kind, time)| (kind, Duration::from_millis(time)));
        let plain = RemoteSpec::default();
        Ok(RemoteSpec {
            program: Program {
                name: self.program,
                app_version: self.app_version,
                engine: Some(ENGINE.to_owned()),
            },
            name: self.name.unwrap_or_else(|| actor.to_owned()),
            queues: queues.collect(),
            kinds: self.kinds,
            lease: Duration::from_secs(self.lease_s.unwrap_or(DEFAULT_LEASE)),
            timeout: self.timeout_ms.map(Duration::from_millis),
            timeouts: timeouts.collect(),
            timeout_grace: self.timeout_grace_ms.map_or(plain.timeout_grace, Duration::from_millis),
            takes_encrypted,
        })
    }

    /// The field that makes no sense, and why; the engine looks at the rest.
    fn wrong(&self) -> Option<(&'static str, String)> {
        let Self {
            name, program, app_version, queues, kinds, lease_s, timeouts_ms, timeout_grace_ms, ..
        } = self;
        let is_bad_name =
            |name: &String| name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control);
        let wrong_name = format!("must be 1 to {LONGEST_NAME} bytes without control characters");
        let (from, to) = LEASE.into_inner();
        Some(match () {
            () if name.as_ref().is_some_and(is_bad_name) => ("/name", wrong_name),
            () if program.as_ref().is_some_and(is_bad_name) => ("/program", wrong_name),
            () if app_version.as_ref().is_some_and(is_bad_name) => ("/app_version", wrong_name),
            () if queues.is_empty() || queues.len() > MOST_QUEUES => {
                ("/queues", format!("must name 1 to {MOST_QUEUES} queues, got {}", queues.len()))
            }
            () if kinds.len() > MOST_KINDS => {
                ("/kinds", format!("must be at most {MOST_KINDS}, got {}", kinds.len()))
            }
            () if timeouts_ms.len() > MOST_KINDS => {
                ("/timeouts_ms", format!("must be of at most {MOST_KINDS} kinds, got {}", timeouts_ms.len()))
            }
            () if timeout_grace_ms.is_some_and(|grace| grace > MOST_GRACE) => {
                ("/timeout_grace_ms", format!("must be at most {MOST_GRACE}"))
            }
            () if lease_s.is_some_and(|lease| !LEASE.contains(&lease)) => {
                ("/lease_s", format!("must be {from} to {to}, got {}", lease_s.unwrap_or_default()))
            }
            () => return None,
        })
    }
}
