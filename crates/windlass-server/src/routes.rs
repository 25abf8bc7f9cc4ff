//! The one list of routes. The router, the roles, the names in the audit log and metrics, and the description of the API come from it.

use crate::{
    api::{audit, bulk, jobs, key_limits, live, queues, schedules, session, settings, store, timings, work},
    app::App,
    auth::Role::{self, Admin, Operator, Viewer, Worker},
    gate::Does::{self, Read, Reveal, Stream, Work, Write},
};
use axum::{
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use std::sync::Arc;

/// The largest body, but that of an enqueue, and that of a login, which is read of everybody.
const BODY: usize = 1 << 20;
const ENQUEUE_BODY: usize = 16 << 20;
const LOGIN_BODY: usize = 4 << 10;

/// A call of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Under `/api/v1`; of the workers' calls under `/work/v1`.
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
    /// The least role that may; `None`: anybody.
    pub(crate) role: Option<Role>,
    pub(crate) does: Does,
    /// Whether it adds something each time. A call of another that may have been done is done again by its repetition, which does no harm.
    pub(crate) adds: bool,
    /// Its parameters in the query: names of `openapi/parameters.json`.
    pub(crate) query: &'static [&'static str],
    /// The schema of its body: a name of `openapi/schemas.json`.
    pub(crate) takes: Option<&'static str>,
    /// The status of its success, and the schema of that answer.
    pub(crate) gives: (u16, Option<&'static str>),
    /// What it is for.
    pub(crate) about: &'static str,
    pub(crate) body_limit: usize,
    pub(crate) handler: MethodRouter<Arc<App>>,
}

impl Route {
    fn new<H, T>(method: Method, path: &'static str, name: &'static str, does: Does, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        Self {
            method,
            path,
            name,
            role: Some(Viewer),
            does,
            adds: false,
            query: &[],
            takes: None,
            gives: (200, None),
            about: "",
            body_limit: BODY,
            handler: on(filter, handler),
        }
    }

    fn role(self, role: Role) -> Self {
        Self { role: Some(role), ..self }
    }

    fn open(self) -> Self {
        Self { role: None, ..self }
    }

    fn adds(self) -> Self {
        Self { adds: true, ..self }
    }

    fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    fn takes(self, schema: &'static str) -> Self {
        Self { takes: Some(schema), ..self }
    }

    fn gives(self, schema: &'static str) -> Self {
        Self { gives: (self.gives.0, Some(schema)), ..self }
    }

    fn status(self, status: u16) -> Self {
        Self { gives: (status, self.gives.1), ..self }
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

/// All of them.
pub(crate) fn routes() -> Vec<Route> {
    let mut all = who();
    all.extend(whole_store());
    all.extend(of_queues());
    all.extend(of_jobs());
    all.extend(of_bulk());
    all.extend(of_schedules());
    all
}

/// The calls of HTTP workers: docs/protocols/http.md describes them.
pub(crate) fn work_routes() -> Vec<Route> {
    let turn = worker(Method::POST, "/workers/{worker}/turn", "work.turn", work::take_turn);
    let beat = worker(Method::POST, "/workers/{worker}/beat", "work.beat", work::beat);
    vec![
        worker(Method::POST, "/workers", "work.register", work::register),
        Route { body_limit: ENQUEUE_BODY, ..turn },
        Route { body_limit: ENQUEUE_BODY, ..beat },
        worker(Method::DELETE, "/workers/{worker}", "work.end", work::end),
    ]
}

fn worker<H: Handler<T, Arc<App>>, T: 'static>(
    method: Method,
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Route {
    Route::new(method, path, name, Work, handler).role(Worker)
}

fn get<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, name: &'static str, handler: H) -> Route {
    Route::new(Method::GET, path, name, Read, handler)
}

fn write<H: Handler<T, Arc<App>>, T: 'static>(
    method: Method,
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Route {
    Route::new(method, path, name, Write, handler).role(Operator)
}

fn post<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, name: &'static str, handler: H) -> Route {
    write(Method::POST, path, name, handler)
}

fn who() -> Vec<Route> {
    let login = Route::new(Method::POST, "/session", "session.begin", Does::Session, session::login)
        .open()
        .takes("Login")
        .status(204)
        .about("A cookie for a token");
    vec![
        get("/session", "session.show", session::show)
            .open()
            .gives("Session")
            .about("Who asks, and what they may do"),
        Route { body_limit: LOGIN_BODY, ..login },
        Route::new(Method::DELETE, "/session", "session.end", Does::Session, session::logout)
            .open()
            .status(204)
            .about("Logs out"),
        get("/audit", "audit.list", audit::list)
            .role(Admin)
            .query(&["actor", "action", "target", "since", "before", "limit"])
            .gives("AuditPage")
            .about("Who changed what, newest first; a page may have fewer entries than asked for although more follow"),
        get("/openapi.json", "openapi", store::openapi).open().gives("Any").about("This document"),
    ]
}

fn whole_store() -> Vec<Route> {
    vec![
        get("/overview", "overview", store::overview)
            .gives("Overview")
            .about("The store, its queues and workers, and what needs a look"),
        get("/workers", "workers.list", store::workers)
            .gives("Workers")
            .about("Workers that registered lately"),
        post("/workers/{worker}/drain", "workers.drain", store::drain)
            .status(204)
            .about("Asks it to take no more jobs, end what it runs, and go"),
        get("/history", "history", store::history)
            .query(&["last_s", "step_s", "queue", "kind", "outcome", "by", "top"])
            .gives("History")
            .about(
                "How many jobs ended in which way, by the minute: of each queue, kind and outcome one series. Where there are more than 100,000 counts the steps are longer than asked: see step_ms",
            ),
        get("/timings", "timings", timings::timings)
            .query(&["last_s", "step_s", "queue", "kind", "by"])
            .gives("Timings")
            .about("How long jobs waited and ran, by the minute"),
        get("/failures", "failures", timings::failures)
            .query(&["last_s", "queue", "kind", "limit"])
            .gives("Failures")
            .about("Why attempts failed, by cause, the most frequent first"),
        get("/marks", "marks.list", timings::marks)
            .query(&["last_s"])
            .gives("Marks")
            .about("What happened beside the jobs, as deploys; the newest first"),
        post("/marks", "marks.add", timings::mark)
            .adds()
            .takes("Mark")
            .status(204)
            .about("Marks this moment in the charts"),
        get("/events", "events", store::events)
            .query(&["after", "limit", "queue", "kind", "type"])
            .gives("Events")
            .about("What happened to jobs, in the order of commits"),
        Route::new(Method::GET, "/live", "live", Stream, live::stream)
            .query(&["topics"])
            .about("What changes, as server-sent events"),
        get("/settings", "settings.show", settings::show).gives("Settings").about("What the store keeps"),
        write(Method::PUT, "/settings", "settings.put", settings::put)
            .role(Admin)
            .takes("Settings")
            .gives("Settings")
            .about("Changes all settings; one that is left out gets its default"),
        get("/retention", "retention.list", settings::retention)
            .gives("Retention")
            .about("Rules of what is kept of single queues and outcomes"),
        write(Method::PUT, "/retention", "retention.put", settings::put_retention)
            .role(Admin)
            .takes("Retention")
            .gives("Retention")
            .about("Keeps rules, each in the place of that of its queue and outcome"),
    ]
}

fn of_queues() -> Vec<Route> {
    vec![
        get("/queues", "queues.list", queues::list)
            .query(&["search", "after", "limit"])
            .gives("Queues")
            .about("A page of queues, by name"),
        get("/queues/{queue}", "queues.show", queues::show)
            .gives("QueueShown")
            .about("One queue with its workers"),
        post("/queues/{queue}/pause", "queues.pause", queues::pause)
            .status(204)
            .about("Stops claiming from it"),
        post("/queues/{queue}/resume", "queues.resume", queues::resume)
            .status(204)
            .about("Allows claiming again"),
        write(Method::PUT, "/queues/{queue}/limits", "queues.limit", queues::limit)
            .role(Admin)
            .takes("QueueLimits")
            .gives("Queue")
            .about("Limits how many jobs run; an empty object takes the limits away"),
        get("/queues/{queue}/key-limits", "queues.key_limits", key_limits::list)
            .query(&["search", "after", "limit"])
            .gives("KeyLimits")
            .about("What holds for every key of it, and a page of the keys with limits of their own, by name"),
        write(Method::PUT, "/queues/{queue}/key-limits", "queues.limit_keys", key_limits::put)
            .role(Admin)
            .takes("KeyLimit")
            .gives("KeyLimit")
            .about("Limits every key that has no limit of its own; an empty object makes the queue fair and no more"),
        write(Method::DELETE, "/queues/{queue}/key-limits", "queues.unlimit_keys", key_limits::remove)
            .role(Admin)
            .status(204)
            .about("Takes all limits of its keys away, also those of single keys"),
        write(Method::PUT, "/queues/{queue}/key-limits/{key}", "queues.limit_key", key_limits::put_one)
            .role(Admin)
            .takes("KeyLimit")
            .gives("KeyLimit")
            .about("Limits one key, in the place of what holds for every key"),
        write(Method::DELETE, "/queues/{queue}/key-limits/{key}", "queues.unlimit_key", key_limits::remove_one)
            .role(Admin)
            .status(204)
            .about("Takes the limit of one key away; what holds for every key holds for it"),
    ]
}

fn of_jobs() -> Vec<Route> {
    let enqueue = post("/jobs", "jobs.enqueue", jobs::enqueue)
        .takes("Enqueue")
        .status(201)
        .gives("Ids")
        .about("Enqueues jobs, all or none; with the header Idempotency-Key at most once. They belong to the trace of the header traceparent, if there is one");
    vec![
        get("/jobs", "jobs.list", jobs::list)
            .query(&["state", "queue", "kind", "tag", "error", "args", "after", "limit"])
            .gives("JobPage")
            .about("A page of jobs; an empty one with `next` means: look further"),
        Route { body_limit: ENQUEUE_BODY, ..enqueue },
        get("/jobs/{id}", "jobs.show", jobs::show).gives("Job").about("A job with its errors and log"),
        Route::new(Method::GET, "/jobs/{id}/args", "jobs.reveal", Reveal, jobs::args)
            .role(Admin)
            .query(&["reveal", "reason"])
            .gives("Args")
            .about("The args with what is hidden; audited"),
        post("/jobs/{id}/retry", "jobs.retry", jobs::retry).gives("Reply").about("Makes it available now"),
        post("/jobs/{id}/cancel", "jobs.cancel", jobs::cancel)
            .gives("Reply")
            .about("Cancels it, or asks its worker to stop it"),
        write(Method::DELETE, "/jobs/{id}", "jobs.delete", jobs::delete)
            .gives("Reply")
            .about("Removes it without a trace"),
        write(Method::PATCH, "/jobs/{id}", "jobs.edit", jobs::edit)
            .takes("JobEdit")
            .gives("Reply")
            .about("Changes it while it waits. What is left out stays, and so does what is null, but for args: they become null"),
    ]
}

fn of_bulk() -> Vec<Route> {
    vec![
        post("/bulk", "bulk.preview", bulk::preview)
            .takes("BulkCreate")
            .status(201)
            .gives("Bulk")
            .about("Counts what would be touched; changes nothing. A count that takes more than ten seconds goes on behind the answer, whose state is `counting` then"),
        get("/bulk/{id}", "bulk.show", bulk::show).gives("Bulk").about("How far it is"),
        post("/bulk/{id}/confirm", "bulk.confirm", bulk::confirm)
            .takes("BulkConfirm")
            .status(202)
            .gives("Bulk")
            .about("Does it in the background, if the count is that of the preview"),
        write(Method::DELETE, "/bulk/{id}", "bulk.stop", bulk::stop)
            .gives("Bulk")
            .about("Stops it; what was done stays done"),
    ]
}

fn of_schedules() -> Vec<Route> {
    vec![
        get("/schedules", "schedules.list", schedules::list)
            .query(&["source", "after", "limit"])
            .gives("Schedules")
            .about("Schedules by name"),
        get("/schedules/{name}", "schedules.show", schedules::show)
            .gives("ScheduleShown")
            .about("One with its next ticks"),
        post("/schedules/{name}/run", "schedules.run", schedules::run)
            .adds()
            .gives("Id")
            .about("Enqueues its job now"),
        post("/schedules/{name}/pause", "schedules.pause", schedules::pause).status(204).about("Stops it"),
        post("/schedules/{name}/resume", "schedules.resume", schedules::resume)
            .status(204)
            .about("Lets it go on with its next tick"),
        write(Method::PUT, "/schedules/{name}", "schedules.put", schedules::put)
            .role(Admin)
            .takes("SchedulePut")
            .gives("ScheduleShown")
            .about("Declares it"),
        write(Method::DELETE, "/schedules/{name}", "schedules.remove", schedules::remove)
            .role(Admin)
            .status(204)
            .about("Removes it; its jobs stay"),
    ]
}
