//! Queues: paused, and limited; and workers: drained.

use super::{done, read, say};
use serde::Deserialize;
use windlass::{Client, KeyLimit, QueueLimits, Result, WorkerId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drained {
    worker: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    queue: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    queue: String,
    limits: QueueLimits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    queue: String,
    limit: KeyLimit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    queue: String,
    key: String,
    limit: KeyLimit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    queue: String,
    key: String,
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    match op {
        "limit" => {
            let Limits { queue, limits } = read(payload)?;
            client.limit(&queue, &limits).await?;
        }
        "limit_keys" => {
            let Keys { queue, limit } = read(payload)?;
            client.limit_keys(&queue, limit).await?;
        }
        "limit_key" => {
            let Key { queue, key, limit } = read(payload)?;
            client.limit_key(&queue, &key, limit).await?;
        }
        "unlimit_key" => {
            let Named { queue, key } = read(payload)?;
            client.unlimit_key(&queue, &key).await?;
        }
        "drain_worker" => {
            let Drained { worker } = read(payload)?;
            client.drain_worker(WorkerId(worker)).await?;
        }
        _ => {
            let Queue { queue } = read(payload)?;
            match op {
                "pause" => client.pause(&queue).await?,
                "resume" => client.resume(&queue).await?,
                "unlimit_keys" => client.unlimit_keys(&queue).await?,
                _ => return say(&client.key_limits(&queue).await?),
            }
        }
    }
    done()
}
