use super::{Traces, facts_of, names, remote};
use crate::{Middleware, Next};
use jiff::Timestamp;
use opentelemetry::{
    Context as Spans, KeyValue,
    context::FutureExt,
    trace::{Link, SpanKind, Status, TraceContextExt, Tracer},
};
use windlass_core::{Outcome, TraceContext};
use windlass_runtime::Context;

impl Middleware for Traces {
    async fn handle(&self, job: &Context, next: Next) -> Outcome {
        let spans = self.process(job);
        let outcome = next.run().with_context(spans.clone()).await;
        tell(&spans, &outcome);
        outcome
    }
}

impl Traces {
    /// The context of an attempt, in which its span is current.
    fn process(&self, job: &Context) -> Spans {
        let sender = job.meta().and_then(TraceContext::of_meta).map(|context| remote(&context));
        let mut facts = facts_of("process");
        facts.extend([
            KeyValue::new(names::DESTINATION, job.queue().to_owned()),
            KeyValue::new(names::MESSAGE, job.id().to_string()),
            KeyValue::new(names::KIND, job.kind().to_owned()),
            KeyValue::new(names::ATTEMPT, i64::from(job.attempt())),
        ]);
        let mut span = self.tracer.span_builder(format!("process {}", job.queue()));
        span = span.with_kind(SpanKind::Consumer).with_attributes(facts);
        let mut parent = Spans::new();
        if let Some(sender) = sender {
            if self.is_child(job) {
                parent = parent.with_remote_span_context(sender.clone());
            }
            span = span.with_links(vec![Link::with_context(sender)]);
        }
        let span = span.start_with_context(&*self.tracer, &parent);
        parent.with_span(span)
    }

    /// Whether an attempt is a part of its sender's trace. The store's clock is compared with ours; a second more or less does not matter.
    fn is_child(&self, job: &Context) -> bool {
        let waited = Timestamp::now().duration_since(job.enqueued_at()).unsigned_abs();
        job.attempt() == 1 && !self.child_within.is_zero() && waited <= self.child_within
    }
}

/// What became of an attempt.
fn tell(spans: &Spans, outcome: &Outcome) {
    let (word, failure) = match outcome {
        Outcome::Retry { error, .. } => ("retry", Some(error)),
        Outcome::Discard(error) => ("discard", Some(error)),
        Outcome::Snooze(_) => ("snooze", None),
        Outcome::Undecryptable { .. } => ("undecryptable", None),
        Outcome::Cancel(_) => ("cancel", None),
        _ => ("complete", None),
    };
    let span = spans.span();
    span.set_attribute(KeyValue::new(names::OUTCOME, word));
    if let Some(error) = failure {
        span.set_attribute(KeyValue::new(names::ERROR, word));
        // An error ends with the last frames of a stack, which is what logs are for.
        span.set_status(Status::error(error.lines().next().unwrap_or_default().to_owned()));
    }
    span.end();
}
