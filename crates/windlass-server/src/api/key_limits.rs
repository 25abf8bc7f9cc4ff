//! Limits of the keys of a queue.

use super::{Answer, Listed, Shared, page_size, queues};
use crate::{
    app::App,
    extract::{Body, Name, Names, Query},
    problem::Problem,
};
use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use windlass::{KeyLimit, KeyLimits, RateLimit};

/// What holds for every key, and a page of the named ones.
pub(crate) async fn list(State(app): Shared, Name(queue): Name, Query(asked): Query<Listed>) -> Answer {
    let most = page_size(asked.limit)? as usize;
    let Some(limits) = app.client.key_limits(&queue).await? else {
        queues::known(&app, &queue).await?;
        return Ok(Json(json!({ "default": null, "items": [], "next": null })));
    };
    let (named, is_more) = limits.page(&asked.search.unwrap_or_default(), asked.after.as_deref(), most);
    let next = named.last().filter(|_| is_more).map(|(key, _)| *key);
    let items: Vec<Value> = named.iter().map(|(key, limit)| json!({ "key": key, "limit": limit })).collect();
    Ok(Json(json!({ "default": limits.default, "items": items, "next": next })))
}

pub(crate) async fn put(State(app): Shared, Name(queue): Name, body: Body) -> Answer {
    let limit = read(&body)?;
    app.client.limit_keys(&queue, limit).await?;
    Ok(Json(json!(limit)))
}

pub(crate) async fn put_one(State(app): Shared, Names(queue, key): Names, body: Body) -> Answer {
    let limit = read(&body)?;
    app.client.limit_key(&queue, &key, limit).await?;
    Ok(Json(json!(limit)))
}

pub(crate) async fn remove(State(app): Shared, Name(queue): Name) -> Result<StatusCode, Problem> {
    there(&app, &queue).await?;
    app.client.unlimit_keys(&queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn remove_one(State(app): Shared, Names(queue, key): Names) -> Result<StatusCode, Problem> {
    // To take a key's limit away in a queue without any would give its keys limits.
    if !there(&app, &queue).await?.named.contains_key(&key) {
        let detail = format!("key {key:?} of queue {queue:?} has no limit of its own");
        return Err(Problem::not_found(detail));
    }
    app.client.unlimit_key(&queue, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn there(app: &App, queue: &str) -> Result<KeyLimits, Problem> {
    let limits = app.client.key_limits(queue).await?;
    limits.ok_or_else(|| Problem::not_found(format!("the keys of queue {queue:?} have no limits")))
}

/// A limit that can work; else where in the body it cannot.
fn read(body: &Body) -> Result<KeyLimit, Problem> {
    let limit: KeyLimit = body.read()?;
    let any = KeyLimit::default();
    let mut at_once = any;
    (at_once.concurrency, at_once.serial) = (limit.concurrency, limit.serial);
    let rate = limit.rate.map(|rate| {
        [
            ("/rate/count", any.with_rate(RateLimit::new(rate.count, RateLimit::LONGEST))),
            ("/rate/period_ms", any.with_rate(RateLimit::new(1, rate.period))),
            ("/rate/burst", any.with_rate(rate)),
        ]
    });
    let parts = [("/concurrency", at_once), ("/weight", any.with_weight(limit.weight))];
    for (pointer, part) in parts.into_iter().chain(rate.into_iter().flatten()) {
        if let Err(error) = part.check() {
            let reason = error.reason().to_owned();
            return Err(Problem::from(error).at(pointer.to_owned(), reason));
        }
    }
    Ok(limit)
}
