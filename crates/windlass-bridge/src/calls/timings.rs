//! What workers measured, and marks.

use super::{done, read, say};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use windlass::{Client, Error, ErrorKind, Result, TimingRequest};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    last_ms: u64,
    step_ms: Option<u64>,
    queue: Option<String>,
    kind: Option<String>,
}

impl Asked {
    fn request(self) -> Result<TimingRequest> {
        let mut request = TimingRequest::last(Duration::from_millis(self.last_ms));
        request.step = self.step_ms.map_or(request.step, Duration::from_millis);
        (request.queue, request.kind) = (self.queue, self.kind);
        request.check()?;
        Ok(request)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    label: String,
    actor: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marks {
    last_ms: u64,
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    match op {
        "timings" => say(&client.timings(&read::<Asked>(payload)?.request()?).await?),
        "failures" => {
            let failures = client.failures(&read::<Asked>(payload)?.request()?).await?;
            say(&json!({ "failures": failures }))
        }
        "mark" => {
            let Mark { label, actor } = read(payload)?;
            client.mark(&label, &actor).await?;
            done()
        }
        "marks" => {
            let Marks { last_ms } = read(payload)?;
            say(&json!({ "marks": client.marks(Duration::from_millis(last_ms)).await? }))
        }
        _ => Err(Error::new(ErrorKind::Internal, format!("{op:?} is no operation"))),
    }
}
