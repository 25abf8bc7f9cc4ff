//! Spans of enqueues and attempts, and how they belong together.
#![cfg(all(feature = "otel", feature = "testing"))]

mod spans;

use opentelemetry::{
    Context as Spans, KeyValue,
    context::FutureExt,
    trace::{SpanKind, Status, TraceContextExt, Tracer},
};
use spans::{Recorded, attribute};
use std::time::Duration;
use windlass::{Context, NewJob, Next, Outcome, Traces, Worker, testing};
use windlass_core::{Args, TraceContext};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PARENTS_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn job() -> NewJob {
    NewJob::new("resize", Args::parse("{}").expect("JSON")).with_queue("images")
}

async fn meta(client: &windlass::Client, id: windlass::JobId) -> Option<TraceContext> {
    let job = client.job(id).await.expect("reads").expect("is there");
    job.meta.as_ref().and_then(TraceContext::of_meta)
}

#[tokio::test]
async fn an_attempt_is_a_part_of_the_trace_that_enqueued_it() {
    let recorded = Recorded::all();
    let client = testing::client().with_traces(recorded.traces());
    let request = recorded.tracer().start("GET /upload");
    let cx = Spans::current_with_span(request);
    let id = client.enqueue(job()).with_context(cx.clone()).await.expect("enqueues");
    drop(cx);
    let tracer = recorded.tracer();
    let worker =
        Worker::builder(&client).queue("images", 1).handle_kind("resize", move |_: windlass::RawJob| {
            // What the handler does is a part of its attempt.
            drop(tracer.start("read file"));
            async {}
        });
    testing::drain(worker).await.expect("drains").assert_completed();

    let [request, send, read, process] =
        recorded.named(["GET /upload", "send images", "read file", "process images"]);
    assert_eq!((send.span_kind.clone(), process.span_kind.clone()), (SpanKind::Producer, SpanKind::Consumer));
    assert_eq!(send.parent_span_id, request.span_context.span_id());
    assert_eq!(process.parent_span_id, send.span_context.span_id());
    assert_eq!(read.parent_span_id, process.span_context.span_id());
    assert!(
        [&send, &read, &process].iter().all(|s| s.span_context.trace_id() == request.span_context.trace_id())
    );
    assert_eq!(process.links.links.len(), 1);
    assert_eq!(process.links.links[0].span_context.span_id(), send.span_context.span_id());
    for (name, value) in [
        ("messaging.system", "windlass"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "images"),
        ("messaging.message.id", &id.to_string()),
        ("windlass.job.kind", "resize"),
        ("windlass.job.attempt", "1"),
        ("windlass.job.outcome", "complete"),
    ] {
        assert_eq!(attribute(&process, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(process.status, Status::Unset);
}

#[tokio::test]
async fn a_retry_is_a_trace_of_its_own_with_a_link() {
    let recorded = Recorded::all();
    let client = testing::client().with_traces(recorded.traces());
    client.enqueue(job().with_max_attempts(2)).await.expect("enqueues");
    let worker = Worker::builder(&client)
        .queue("images", 1)
        .handle_kind("resize", |_: windlass::RawJob| async { Err::<(), _>("no disk\nat line 7") });
    testing::drain(worker).until_done().await.expect("drains");

    let send = recorded.one("send images");
    let [first, second] = recorded.some("process images");
    assert_eq!(first.parent_span_id, send.span_context.span_id());
    assert_ne!(second.span_context.trace_id(), send.span_context.trace_id());
    assert!(!second.parent_span_is_remote);
    assert_eq!(second.links.links[0].span_context.span_id(), send.span_context.span_id());
    assert_eq!((&first.status, &second.status), (&Status::error("no disk"), &Status::error("no disk")));
    let attempt = attribute(&second, "windlass.job.attempt");
    assert_eq!((attempt.as_deref(), attribute(&first, "error.type").as_deref()), (Some("2"), Some("retry")));
}

#[tokio::test]
async fn zero_links_only() {
    let recorded = Recorded::all();
    let client = testing::client().with_traces(recorded.traces().child_within(Duration::ZERO));
    client.enqueue(job()).await.expect("enqueues");
    let worker =
        Worker::builder(&client).queue("images", 1).handle_kind("resize", |_: windlass::RawJob| async {});
    testing::drain(worker).await.expect("drains").assert_completed();
    let [send, process] = recorded.named(["send images", "process images"]);
    assert_ne!(process.span_context.trace_id(), send.span_context.trace_id());
    assert_eq!(process.links.links[0].span_context.span_id(), send.span_context.span_id());
}

#[tokio::test]
async fn jobs_of_a_batch_share_a_span() {
    let recorded = Recorded::all();
    let client = testing::client().with_traces(recorded.traces());
    let ids = client.enqueue_many([job(), job(), job().with_queue("other")]).await.expect("enqueues");
    let send = recorded.one("send");
    assert_eq!(attribute(&send, "messaging.batch.message_count").as_deref(), Some("3"));
    for id in ids {
        let carried = meta(&client, id).await.expect("carries its sender");
        assert_eq!(carried.span_id(), send.span_context.span_id().to_string());
    }
}

#[tokio::test]
async fn what_nobody_records_is_not_carried() {
    let recorded = Recorded::none();
    let client = testing::client().with_traces(recorded.traces());
    let id = client.enqueue(job()).await.expect("enqueues");
    assert!(client.job(id).await.unwrap().unwrap().meta.is_none());
    let untraced = testing::client();
    let id = untraced.enqueue(job()).await.expect("enqueues");
    assert!(untraced.job(id).await.unwrap().unwrap().meta.is_none());
}

/// Without a provider nothing is recorded here, but a trace from outside goes on.
#[tokio::test]
async fn a_trace_goes_through_a_program_that_records_none() {
    let client = testing::client().with_traces(Traces::global());
    let parent = TraceContext::new(PARENT, "vendor=7").expect("valid");
    let id = Traces::within(&parent, client.enqueue(job())).await.expect("enqueues");
    let carried = meta(&client, id).await.expect("carries it");
    assert_eq!((carried.traceparent(), carried.tracestate()), (PARENT, "vendor=7"));
    let (tell, told) = std::sync::mpsc::channel();
    let worker =
        Worker::builder(&client).queue("images", 1).handle_kind("resize", move |_: windlass::RawJob| {
            tell.send(Traces::current()).expect("is read");
            async {}
        });
    testing::drain(worker).await.expect("drains").assert_completed();
    assert_eq!(told.recv().unwrap().expect("is current").trace_id(), PARENTS_TRACE);
    assert!(Traces::current().is_none());
}

#[tokio::test]
async fn layers_of_the_worker_run_in_the_span() {
    async fn layer(_: Context, next: Next) -> Outcome {
        Spans::current().span().set_attribute(KeyValue::new("tenant", "acme"));
        next.run().await
    }
    let recorded = Recorded::all();
    let client = testing::client().with_traces(recorded.traces());
    client.enqueue(job()).await.expect("enqueues");
    let worker = Worker::builder(&client).queue("images", 1).layer(layer);
    testing::drain(worker.handle_kind("resize", |_: windlass::RawJob| async {})).await.expect("drains");
    assert_eq!(attribute(&recorded.one("process images"), "tenant").as_deref(), Some("acme"));
}

#[tokio::test]
async fn an_enqueue_that_is_refused_ends_its_span_as_an_error() {
    let recorded = Recorded::all();
    let client = testing::client().with_traces(recorded.traces());
    client.enqueue_once("", job()).await.expect_err("a key that is none");
    let send = recorded.one("send images");
    assert_eq!(attribute(&send, "error.type").as_deref(), Some("InvalidOption"));
    assert!(matches!(send.status, Status::Error { .. }));
}
