use super::{Traces, context_of, facts_of, names};
use crate::Client;
use opentelemetry::{
    KeyValue,
    global::BoxedSpan,
    trace::{Span, SpanKind, Status, Tracer},
};
use windlass_core::{NewJob, Result};

/// An enqueue under way: a span that ends with this.
#[must_use = "the span ends when this is dropped"]
pub(crate) struct Sending(Option<BoxedSpan>);

impl Client {
    /// The same client with [traces](Traces), of what it enqueues and what its workers run.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        self.traces = Some(traces);
        self
    }

    /// Begins to enqueue these jobs: whoever works them will know whose they are.
    pub(crate) fn sending(&self, jobs: &mut [NewJob]) -> Sending {
        let (Some(traces), Some(first)) = (&self.traces, jobs.first()) else { return Sending(None) };
        let queue = first.queue();
        let one = jobs.iter().all(|job| job.queue() == queue).then(|| queue.to_owned());
        let name = one.as_ref().map_or("send".to_owned(), |queue| format!("send {queue}"));
        let mut facts = facts_of("send");
        facts.extend(one.map(|queue| KeyValue::new(names::DESTINATION, queue)));
        match jobs.len() {
            1 => facts.push(KeyValue::new(names::KIND, jobs[0].kind().to_owned())),
            many => facts.push(KeyValue::new(names::BATCH, i64::try_from(many).unwrap_or(i64::MAX))),
        }
        let span = traces.tracer.span_builder(name).with_kind(SpanKind::Producer).with_attributes(facts);
        let span = span.start(&*traces.tracer);
        // What nobody records is not carried.
        let sampled = span.span_context().is_sampled();
        if let Some(context) = context_of(span.span_context()).filter(|_| sampled) {
            context.carry(jobs);
        }
        Sending(Some(span))
    }
}

impl Sending {
    /// Ends it with what the store said.
    pub(crate) fn end<T>(self, result: Result<T>) -> Result<T> {
        if let (Some(mut span), Err(error)) = (self.0, &result) {
            span.set_attribute(KeyValue::new(names::ERROR, format!("{:?}", error.kind())));
            span.set_status(Status::error(error.to_string()));
        }
        result
    }
}
