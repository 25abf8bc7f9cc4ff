//! The HTTP API and the dashboard of Windlass: by itself (`windlass serve`), or as a router inside a program of yours.
//!
//! * [`Server`] is the whole; [`Access`] says who may use it, and by default nobody but who is on this machine.
//! * What the API has is listed in one place (`routes.rs`), and described at `/api/v1/openapi.json`.
//! * Workers over HTTP (`/work/v1`): docs/protocols/http.md.
//! * Guide: docs/guide/http.md; how to run it: docs/guide/operate.md.
//!
//! # Architecture invariants
//!
//! * It stands on the façade (`windlass::Client`) alone, so that it works with every store; no rule of the queue lives here.
//! * Deny by default: a route has a role, and no request reaches a handler around `gate.rs`.
//! * Nothing that `redact.rs` hides leaves the process but by `GET /jobs/{id}/args`, which is audited.
//! * What it holds in memory is bounded and nobody's only copy of a job: sessions, previews, which HTTP workers are registered.
//! * Nobody looking at a topic means no query for it; somebody, or many, means one poller.

mod api;
mod app;
mod assets;
mod audit;
mod auth;
mod base_path;
mod bodies;
mod bulk;
mod connections;
mod counts;
mod enqueued;
mod extract;
mod few;
mod gate;
mod kept;
mod live;
mod metrics;
mod objects;
mod openapi;
mod overview;
mod passed_over;
mod past;
mod problem;
mod record;
mod redact;
mod replays;
mod routes;
mod series;
mod server;
mod shell;
mod side_by_side;
#[cfg(test)]
mod tests;
mod trace_url;
mod unread;
mod unsent;
mod work;
mod worker_site;

pub use auth::{Access, AuthFile, Identity, NewToken, Role};
pub use base_path::BasePath;
pub use redact::Redaction;
pub use server::{Builder, Server};
pub use trace_url::TraceUrl;
pub use worker_site::serve_worker;

/// The examples of docs/guide, under test.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/http.md")]
    struct Http;
    #[doc = include_str!("../../../docs/guide/operate.md")]
    struct Operate;
}
