//! Traces of jobs by OpenTelemetry: a span for each enqueue and for each attempt, tied together over the store. Names and kinds of
//! spans follow its [conventions for messaging](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/), which are
//! in development; what they call what is in `names.rs`.

mod names;
mod processing;
mod sending;

use opentelemetry::{
    Context as Spans, InstrumentationScope, KeyValue, global,
    global::BoxedTracer,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use std::{fmt, str::FromStr, sync::Arc, time::Duration};
use windlass_core::TraceContext;

/// How far apart an enqueue and its first attempt are in one trace.
const CHILD_WITHIN: Duration = Duration::from_secs(60);

/// Traces of jobs. Given to a [client](crate::Client::with_traces), it makes
///
/// * a span `send {queue}` (producer) of each call that enqueues, whose [trace context](TraceContext) the jobs' meta carries when
///   the trace is recorded;
/// * a span `process {queue}` (consumer) of each attempt by that client's workers, around all [layers](crate::Middleware), with a
///   link to the sender's span. A first attempt within a minute of the enqueue is its child, too, so that both are one
///   trace; a retry six hours later is a trace of its own.
///
/// A handler's own spans belong to its attempt's: those that OpenTelemetry makes, and those of `tracing` through
/// `tracing-opentelemetry` (leave `windlass_runtime=debug` out of that layer's filter; its spans have no sender).
///
/// ```
/// # use windlass::{Client, Traces};
/// # fn example(client: Client) -> Client {
/// // opentelemetry::global::set_tracer_provider(…), then:
/// client.with_traces(Traces::global())
/// # }
/// ```
#[derive(Clone)]
pub struct Traces {
    tracer: Arc<BoxedTracer>,
    child_within: Duration,
}

impl Traces {
    /// Spans go to the program's tracer provider, as it is set now.
    pub fn global() -> Self {
        let scope = InstrumentationScope::builder("windlass").with_version(env!("CARGO_PKG_VERSION")).build();
        Self::new(global::tracer_with_scope(scope))
    }

    /// Spans go to a tracer.
    pub fn new(tracer: BoxedTracer) -> Self {
        Self { tracer: Arc::new(tracer), child_within: CHILD_WITHIN }
    }

    /// How soon after its enqueue a first attempt has to begin to be part of the sender's trace. Default one minute; zero: only
    /// links, never parts; `Duration::MAX`: however late.
    #[must_use]
    pub fn child_within(mut self, most: Duration) -> Self {
        self.child_within = most;
        self
    }

    /// The trace context of the span that is current here: to hand on to what is not a job, a program or a request. `None` where no
    /// span is.
    pub fn current() -> Option<TraceContext> {
        context_of(Spans::current().span().span_context())
    }

    /// Runs a future as a part of somebody's trace: what it enqueues and calls belongs to that.
    pub fn within<F: Future>(parent: &TraceContext, future: F) -> impl Future<Output = F::Output> {
        use opentelemetry::context::FutureExt;
        future.with_context(Spans::new().with_remote_span_context(remote(parent)))
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("child_within", &self.child_within).finish_non_exhaustive()
    }
}

/// What each span of an operation says.
fn facts_of(operation: &'static str) -> Vec<KeyValue> {
    vec![
        KeyValue::new(names::SYSTEM, "windlass"),
        KeyValue::new(names::OPERATION, operation),
        KeyValue::new(names::OPERATION_TYPE, operation),
    ]
}

/// A span's trace context; `None` without a span.
fn context_of(span: &SpanContext) -> Option<TraceContext> {
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    let state = span.trace_state().header();
    // One of zeros is none.
    TraceContext::new(&format!("00-{trace:032x}-{id:016x}-{flags:02x}"), &state).ok()
}

/// The span of which a trace context tells, somewhere else.
fn remote(context: &TraceContext) -> SpanContext {
    let flags = if context.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let trace = TraceId::from_hex(context.trace_id()).unwrap_or(TraceId::INVALID);
    let span = SpanId::from_hex(context.span_id()).unwrap_or(SpanId::INVALID);
    let state = TraceState::from_str(context.tracestate()).unwrap_or_default();
    SpanContext::new(trace, span, flags, true, state)
}
