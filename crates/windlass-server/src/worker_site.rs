//! What a worker process answers about itself where no server is: `/metrics`, `/healthz`, `/readyz`, and nothing else.

use crate::{
    api::probes,
    connections,
    metrics::{MEDIA, worker},
};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use std::{io, sync::Arc};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass::{Client, Worker};

/// Answers Prometheus and probes about a worker until `until` is over. Whoever reaches the listener may ask: nothing that is said names a job, a
/// kind, a queue or the store.
///
/// # Errors
/// What the listener says.
pub async fn serve_worker(
    listener: TcpListener,
    client: Client,
    worker: Arc<Worker>,
    until: impl Future<Output = ()>,
) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics).with_state(worker))
        .route("/healthz", get(probes::health))
        .route("/readyz", get(ready).with_state(client));
    connections::serve(&listener, &router, until, &CancellationToken::new()).await
}

async fn metrics(State(worker): State<Arc<Worker>>) -> impl IntoResponse {
    match worker::text(&worker.stats()) {
        Ok(text) => ([(header::CONTENT_TYPE, MEDIA)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(client): State<Client>) -> impl IntoResponse {
    probes::store_is_ready(&client).await
}
