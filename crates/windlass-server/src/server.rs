use crate::{
    TraceUrl,
    api::{probes, store},
    app::App,
    assets,
    audit::Audit,
    auth::{Access, Auth, AuthFile, Role},
    base_path::BasePath,
    bodies::{self, Bodies},
    bulk::Bulk,
    connections,
    counts::Counts,
    enqueued::Enqueued,
    gate::{Does, Gate, gate},
    live::Live,
    metrics::Metrics,
    openapi::document,
    overview::Overview,
    past::Past,
    problem::Problem,
    redact::Redaction,
    replays::Replays,
    routes::{Route, routes, work_routes},
    shell::shell,
    work::Work,
};
use axum::{Router, http::StatusCode, middleware::from_fn_with_state, response::Redirect, routing::get};
use std::{io, sync::Arc};
use tokio::{net::TcpListener, sync::OnceCell};
use tokio_util::sync::CancellationToken;
use windlass::{Client, Result};

/// The HTTP API and the dashboard of one store.
///
/// By itself:
///
/// ```no_run
/// use windlass_server::{Access, AuthFile, BasePath, Server};
/// # async fn serve(client: windlass::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let file = AuthFile::read("auth.toml".as_ref())?;
/// let server = Server::builder(client).access(Access::file(file)).build();
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7411").await?;
/// server.serve(listener, &BasePath::default(), std::future::pending()).await?;
/// # Ok(()) }
/// ```
///
/// Or inside another axum program, which says who people are:
///
/// ```
/// use axum::http::request::Parts;
/// use windlass_server::{Access, Identity, Role, Server};
/// # fn mount(client: windlass::Client) {
/// let identify = |parts: &Parts| {
///     let user = parts.headers.get("x-user")?.to_str().ok()?; // whatever your own login left there
///     Some(Identity::new(user, Role::Operator))
/// };
/// let server = Server::builder(client).access(Access::program(identify)).build();
/// let app: axum::Router = axum::Router::new().nest_service("/jobs", server.router());
/// let stop = async move {
///     let _ = tokio::signal::ctrl_c().await;
///     server.close().await; // or streams and waiting workers hold the stop up
/// };
/// // axum::serve(listener, app).with_graceful_shutdown(stop).await?;
/// # drop(stop);
/// # }
/// ```
#[derive(Clone)]
pub struct Server(Arc<App>);

/// What a [`Server`] is to be.
pub struct Builder {
    client: Client,
    access: Access,
    redaction: Option<Redaction>,
    read_only: bool,
    port: Option<u16>,
    trace_url: Option<TraceUrl>,
    body_memory: usize,
}

impl Builder {
    /// Who may use it; [everybody on this machine looks](Access::loopback) by default.
    #[must_use]
    pub fn access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// What is hidden of args; by default what the auth file says, if there is one.
    #[must_use]
    pub fn redaction(self, redaction: Redaction) -> Self {
        Self { redaction: Some(redaction), ..self }
    }

    /// Refuses whatever changes something.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// The port that it is reached by, so that requests by another are refused; with [`Access::loopback`].
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port: Some(port), ..self }
    }

    /// Where the page of a job links to for its trace; without it, it does not.
    #[must_use]
    pub fn trace_url(self, url: impl Into<Option<TraceUrl>>) -> Self {
        Self { trace_url: url.into(), ..self }
    }

    /// How many bytes of bodies may be in memory at once, over all requests; 64 MiB by default. One that would be more waits, for ten seconds at
    /// most. With what is made of them a server takes some four times as much.
    #[must_use]
    pub fn body_memory(self, bytes: usize) -> Self {
        Self { body_memory: bytes, ..self }
    }

    /// The server; it does nothing yet.
    pub fn build(self) -> Server {
        let Self { client, access, redaction, read_only, port, trace_url, body_memory } = self;
        let stop = CancellationToken::new();
        let audit = Arc::new(Audit::new(client.clone(), read_only));
        let auth = Auth::new(access, port);
        Server(Arc::new(App {
            openapi: document(&routes(), auth.cookie().name()).to_string(),
            auth,
            redaction: redaction.map(Arc::new),
            audit: Arc::clone(&audit),
            counts: Counts::default(),
            past: Past::default(),
            overview: Overview::default(),
            live: Arc::new(Live::new(stop.clone())),
            bodies: Bodies::new(body_memory),
            bulk: Bulk::new(client.clone(), audit, stop.child_token()),
            work: Arc::new(Work::new(client.clone(), stop.clone())),
            metrics: Metrics::new(),
            replays: Replays::default(),
            enqueued: Enqueued::default(),
            read_only,
            trace_url,
            client,
            stop,
            store: OnceCell::new(),
        }))
    }
}

impl Server {
    /// A server of this client's store.
    pub fn builder(client: Client) -> Builder {
        Builder {
            client,
            access: Access::loopback(),
            redaction: None,
            read_only: false,
            port: None,
            trace_url: None,
            body_memory: bodies::MOST,
        }
    }

    /// A token that makes one browser or program admin for a session, once and within ten minutes; `None` unless the access is
    /// [`Access::loopback`]. A later one takes its place.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn start_key(&self) -> Result<Option<String>> {
        self.0.auth.start_key()
    }

    /// Takes this auth file in the place of the one that it was built with. At once: requests are held against it, tokens that it does not have as they
    /// were open nothing any more, their sessions end, their bulk actions stop where they are, all streams end (browsers come back, if they still may), and workers that
    /// registered with such a token are known no more; what they have goes back as soon as the store answers.
    ///
    /// # Errors
    /// `invalid_option` where it was not built with [`Access::file`].
    pub async fn set_auth_file(&self, file: AuthFile) -> Result<()> {
        let before = self.0.auth.replace(file)?;
        let is_over = |actor: &str| !self.0.auth.keeps(&before, actor);
        self.0.bulk.end_those(is_over);
        self.0.work.end_those(is_over);
        Ok(())
    }

    /// Its routes, to be nested into a router of yours (by `nest_service`, so that `/jobs/` is there as well as `/jobs`), or served as they are. With [`Access::loopback`], serve it with
    /// `into_make_service_with_connect_info::<SocketAddr>()`. Before your program stops, [close](Self::close) it.
    pub fn router(&self) -> Router {
        let app = &self.0;
        let mut router = Router::new();
        let of_people = routes().into_iter().map(|route| ("/api/v1", route));
        for (under, route) in of_people.chain(work_routes().into_iter().map(|route| ("/work/v1", route))) {
            let Route { name, role, does, adds, body_limit, .. } = route;
            let (has_query, has_body) = (!route.query.is_empty(), route.takes.is_some());
            let guard =
                Gate { app: Arc::clone(app), name, role, does, adds, has_query, has_body, body_limit };
            let handler = route.handler.route_layer(from_fn_with_state(guard, gate));
            router = router.route(&format!("{under}{}", route.path), handler);
        }
        let (name, role, does) = ("metrics", Some(Role::Viewer), Does::Read);
        let (has_query, has_body) = (true, false); // who scrapes may be told to add parameters
        let guard =
            Gate { app: Arc::clone(app), name, role, does, adds: false, has_query, has_body, body_limit: 0 };
        let metrics = get(store::metrics).route_layer(from_fn_with_state(guard, gate));
        router
            .route("/metrics", metrics)
            .route("/healthz", get(probes::health))
            .route("/readyz", get(probes::ready))
            .fallback(assets::serve)
            .method_not_allowed_fallback(wrong_method)
            .layer(from_fn_with_state(Arc::clone(app), shell))
            .with_state(Arc::clone(app))
    }

    /// Ends what goes on by itself: streams and bulk actions end, HTTP workers that wait are answered at once, and what the workers have goes
    /// back. For a mounted server, whose program stops: without it a stream lasts for up to a quarter of an hour. Requests are still
    /// answered, but `/readyz` says no and no worker registers any more. Takes five seconds at most; a second call does nothing.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.work.close().await;
    }

    /// Serves under a path until `until` is over: then streams and bulk actions end, HTTP workers are answered at once, running requests get ten seconds, and
    /// what the workers have goes back meanwhile.
    ///
    /// # Errors
    /// What the listener says.
    pub async fn serve(
        self,
        listener: TcpListener,
        base: &BasePath,
        until: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (router, stop) = (self.under(base), &self.0.stop);
        let serves = async {
            let served = connections::serve(&listener, &router, until, stop).await;
            stop.cancel();
            served
        };
        // Beside the requests that are still running: it waits for those of workers, and for no others.
        let closes = async {
            stop.cancelled().await;
            self.close().await;
        };
        tokio::join!(serves, closes).0
    }

    /// The routes under a path; the probes beside it, too.
    fn under(&self, base: &BasePath) -> Router {
        let path = base.as_str();
        if path.is_empty() {
            return self.router();
        }
        let home = Redirect::temporary(&format!("{path}/"));
        let probes = Router::new()
            .route("/healthz", get(probes::health))
            .route("/readyz", get(probes::ready))
            .with_state(Arc::clone(&self.0));
        let root = Router::new().route("/", get(move || async move { home }));
        root.merge(probes).nest_service(path, self.router())
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

async fn wrong_method() -> Problem {
    let detail = "this path does not know this method; GET /api/v1/openapi.json lists what it does";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
