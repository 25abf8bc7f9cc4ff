use serde::Deserialize;
use std::time::Duration;
use windlass::ErrorKind;
use windlass_bridge::{Failure, WorkerSpec};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    queues: Vec<(String, usize)>,
    kinds: Vec<String>,
    timeout_ms: Option<u64>,
    lease_ms: Option<u64>,
    grace_period_ms: Option<u64>,
}

/// What a worker works, from JSON.
pub(crate) fn parse(json: &str) -> Result<WorkerSpec, Failure> {
    let spec: Spec = serde_json::from_str(json).map_err(|cause| {
        crate::promise::failure(ErrorKind::InvalidOption, format!("the options of the worker: {cause}"))
    })?;
    let Spec { queues, kinds, timeout_ms, lease_ms, grace_period_ms } = spec;
    let time = |ms: Option<u64>| ms.map(Duration::from_millis);
    let (timeout, lease, grace_period) = (time(timeout_ms), time(lease_ms), time(grace_period_ms));
    Ok(WorkerSpec { queues, kinds, timeout, lease, grace_period })
}
