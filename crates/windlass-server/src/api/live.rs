use super::{Shared, jobs, queues};
use crate::{
    app::App,
    auth::Identity,
    extract::{Query, parse_id},
    live::{Latest, Live, Reader},
    problem::Problem,
};
use axum::{
    Extension,
    extract::State,
    http::{HeaderName, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{Stream, future::select_all, stream};
use serde::Deserialize;
use serde_json::json;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The most topics of one stream.
const MOST_TOPICS: usize = 16;
/// A stream ends then, so that who may not read any more does not; browsers come back by themselves.
const LIFE: Duration = Duration::from_secs(900);
/// So often something is sent, that nobody in between takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    topics: String,
}

/// What changes in these topics, as server-sent events.
pub(crate) async fn stream(
    State(app): Shared,
    Extension(auth): Extension<watch::Receiver<u64>>,
    Extension(identity): Extension<Identity>,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut topics: Vec<&str> = asked.topics.split(',').filter(|topic| !topic.is_empty()).collect();
    topics.sort_unstable();
    topics.dedup();
    if !(1..=MOST_TOPICS).contains(&topics.len()) {
        return Err(Problem::invalid(format!("name 1 to {MOST_TOPICS} topics, got {}", topics.len())));
    }
    let reader = app.live.reader(identity.actor()).map_err(|open| {
        let detail = format!("{open} streams are open; try again later");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many", detail).retry_after(30)
    })?;
    let receivers = topics.into_iter().map(|topic| subscribe(&app, topic)).collect::<Result<Vec<_>, _>>()?;
    let following = Following {
        live: Arc::clone(&app.live),
        _reader: reader,
        auth,
        receivers,
        session: identity.ended(),
        until: Instant::now() + identity.lasts().map_or(LIFE, |lasts| lasts.min(LIFE)),
        ended: false,
    };
    let sse = Sse::new(following.events()).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    // nginx would collect the events.
    Ok(([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response())
}

fn subscribe(app: &Arc<App>, topic: &str) -> Result<watch::Receiver<Latest>, Problem> {
    let shared = Arc::clone(app);
    let mut receiver = match topic.split_once(':') {
        None if topic == "overview" => app.live.subscribe(topic, "overview", move || {
            let app = Arc::clone(&shared);
            async move { Ok(app.overview.look(&app.client, &app.counts, &app.past).await?) }
        }),
        Some(("queue", name)) => {
            let name = name.to_owned();
            app.live.subscribe(topic, "queue", move || {
                let (app, name) = (Arc::clone(&shared), name.clone());
                async move { queues::one(&app, &name).await }
            })
        }
        Some(("bulk", id)) => {
            let id = id.to_owned();
            app.live.subscribe(topic, "bulk", move || {
                let shown = shared.bulk.get(&id).map(|shown| json!(shown));
                async move { shown }
            })
        }
        Some(("job", id)) => {
            let id = parse_id(id)?;
            app.live.subscribe(topic, "job", move || {
                let app = Arc::clone(&shared);
                async move { jobs::one(&app, id).await }
            })
        }
        _ => {
            let topic: String = topic.chars().take(100).collect();
            let detail = format!("unknown topic {topic:?}; use overview, queue:NAME, job:ID or bulk:ID");
            return Err(Problem::invalid(detail));
        }
    };
    // What is known already comes at once.
    receiver.mark_changed();
    Ok(receiver)
}

/// The last event of a stream: come back.
fn last(ended: &mut bool, why: &str) -> Event {
    *ended = true;
    Event::default().retry(Duration::from_secs(1)).comment(why)
}

/// A stream, while it is read.
struct Following {
    live: Arc<Live>,
    _reader: Reader,
    /// Who may read is said anew: whoever still may comes back.
    auth: watch::Receiver<u64>,
    /// Ends with the session that it was opened by.
    session: CancellationToken,
    receivers: Vec<watch::Receiver<Latest>>,
    until: Instant,
    ended: bool,
}

impl Following {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut following| async move {
            let event = following.next().await?;
            Some((Ok(event), following))
        })
    }

    /// The next frame. The last one before a stop says when to come back.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ended || self.receivers.is_empty() {
                return None;
            }
            let stop = self.live.stop().clone();
            let changes = self.receivers.iter_mut().map(|receiver| Box::pin(receiver.changed()));
            let (changed, at) = tokio::select! {
                (changed, at, _) = select_all(changes) => (changed, at),
                () = stop.cancelled() => return Some(last(&mut self.ended, "stopping")),
                Ok(()) = self.auth.changed() => return Some(last(&mut self.ended, "who may read has changed")),
                () = self.session.cancelled() => return Some(last(&mut self.ended, "the session has ended")),
                () = sleep_until(self.until) => return None,
            };
            if changed.is_err() {
                self.receivers.remove(at);
                continue;
            }
            let latest = self.receivers[at].borrow_and_update().clone();
            if let Some(frame) = latest {
                return Some(Event::default().event(frame.event).data(&frame.data));
            }
        }
    }
}
