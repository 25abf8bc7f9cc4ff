use super::Shared;
use axum::{extract::State, http::StatusCode};
use std::time::Duration;
use windlass::Client;

/// How long the store may take to be called ready.
const PATIENCE: Duration = Duration::from_secs(1);

/// The process answers.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// The store answers and its schema fits, and we are not about to stop.
pub(crate) async fn ready(State(app): Shared) -> (StatusCode, &'static str) {
    if app.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    store_is_ready(&app.client).await
}

pub(crate) async fn store_is_ready(client: &Client) -> (StatusCode, &'static str) {
    match tokio::time::timeout(PATIENCE, client.settings()).await {
        Ok(Ok(_)) => (StatusCode::OK, "ready\n"),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the store is not ready\n")
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer in time\n"),
    }
}
