use crate::{
    TraceUrl, audit::Audit, auth::Auth, bodies::Bodies, bulk::Bulk, counts::Counts, enqueued::Enqueued,
    live::Live, metrics::Metrics, overview::Overview, past::Past, redact::Redaction, replays::Replays,
    work::Work,
};
use axum::{extract::FromRequestParts, extract::NestedPath, http::request::Parts};
use std::{sync::Arc, time::Duration};
use tokio::{sync::OnceCell, time::timeout};
use tokio_util::sync::CancellationToken;
use windlass::{Client, Error};

/// How long the store may take to say which it is.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all requests of a server share. Nothing in it is the only copy of anything that matters but sessions and previews, which
/// end with the process.
pub(crate) struct App {
    pub(crate) client: Client,
    pub(crate) auth: Auth,
    /// What the program says is hidden, whatever the auth file says.
    pub(crate) redaction: Option<Arc<Redaction>>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) counts: Counts,
    pub(crate) past: Past,
    pub(crate) overview: Overview,
    pub(crate) live: Arc<Live>,
    pub(crate) bodies: Bodies,
    pub(crate) bulk: Bulk,
    pub(crate) work: Arc<Work>,
    pub(crate) metrics: Metrics,
    pub(crate) replays: Replays,
    pub(crate) enqueued: Enqueued,
    /// Nothing can be changed here.
    pub(crate) read_only: bool,
    /// Where traces are shown.
    pub(crate) trace_url: Option<TraceUrl>,
    /// The description of the API, as JSON.
    pub(crate) openapi: String,
    pub(crate) stop: CancellationToken,
    /// What [`Self::store`] found.
    pub(crate) store: OnceCell<String>,
}

impl App {
    /// What is hidden.
    pub(crate) fn redaction(&self) -> Arc<Redaction> {
        let of_file = || self.auth.file().map(|file| Arc::clone(&file.redaction)).unwrap_or_default();
        self.redaction.clone().unwrap_or_else(of_file)
    }

    /// Which store it is, with its version: asked once. `None` where it does not say so in time, to those who wait while another asks, too.
    pub(crate) async fn store(&self) -> Option<&str> {
        let ask = || async { Ok::<_, Error>(self.client.status().await?.store) };
        let store = timeout(PATIENCE, self.store.get_or_try_init(ask)).await.ok()?;
        store.ok().map(String::as_str)
    }

    /// The path under which this request reached us, with a slash at its end; and whether by TLS.
    pub(crate) async fn base(&self, parts: &mut Parts) -> (String, bool) {
        let nested = NestedPath::from_request_parts(parts, &()).await.ok();
        let (prefix, secure) = self.auth.forwarded(parts);
        let nested = nested.as_ref().map_or("", NestedPath::as_str).trim_end_matches('/');
        (format!("{}{nested}/", prefix.unwrap_or_default()), secure)
    }
}
