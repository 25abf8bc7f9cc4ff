//! Traces: where the environment names a collector, spans go there, as [OpenTelemetry] has it for every program; where it names a
//! trace, what is enqueued belongs to that.
//!
//! [OpenTelemetry]: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/

use crate::failure::{Failure, Outcome};
use opentelemetry::global;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use std::{env, time::Duration};
use tracing::warn;
use windlass::{Client, TraceContext, Traces};

/// How long the end of the program waits for the collector to take the last spans.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// Runs a command that makes spans, as a part of the trace that the environment names.
pub(crate) async fn exported(command: impl Future<Output = Outcome>) -> Outcome {
    let export = Export::start()?;
    let ended = within_parent(command).await;
    export.end();
    ended
}

/// Where the program's spans go, if anywhere.
struct Export(Option<SdkTracerProvider>);

impl Export {
    /// As the environment says: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT name a collector.
    fn start() -> Outcome<Self> {
        let Some(endpoint) = endpoint() else { return Ok(Self(None)) };
        check(&endpoint)?;
        // The exporter's HTTP client asks for the process's provider. Somebody who set one before has set one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = SpanExporter::builder().with_http().build();
        let exporter = exporter.map_err(|error| refused(format!("traces cannot be exported: {error}")))?;
        let mut resource = Resource::builder();
        if variable("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("windlass");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        global::set_tracer_provider(provider.clone());
        Ok(Self(Some(provider)))
    }

    /// Sends what is left.
    fn end(self) {
        if let Some(Err(error)) = self.0.map(|provider| provider.shutdown_with_timeout(LAST_SPANS)) {
            warn!(%error, "the last spans did not reach the collector");
        }
    }
}

/// The collector, where there is one.
fn endpoint() -> Option<String> {
    let named = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"].map(variable);
    let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    named.into_iter().flatten().next().filter(|_| !off)
}

/// What cannot work is told before the first job, not by spans that never come.
fn check(endpoint: &str) -> Outcome {
    let protocol = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"].map(variable);
    if let Some(other) = protocol.into_iter().flatten().next().filter(|protocol| protocol != "http/protobuf")
    {
        return Err(refused(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is {other:?}, and windlass speaks http/protobuf only (collectors take it at port 4318)"
        )));
    }
    if endpoint.starts_with("http://") || endpoint.starts_with("https://") {
        return Ok(());
    }
    Err(refused(format!("OTEL_EXPORTER_OTLP_ENDPOINT must be like http://127.0.0.1:4318, got {endpoint:?}")))
}

fn refused(message: String) -> Failure {
    Failure::usage("invalid_option", message)
}

/// A client that makes spans where they go somewhere, and else hands on the trace that it is in.
pub(crate) fn traced(client: Client) -> Client {
    client.with_traces(Traces::global())
}

/// A client for many small jobs: it pays for spans only where they go somewhere.
pub(crate) fn traced_if_exported(client: Client) -> Client {
    if endpoint().is_some() { traced(client) } else { client }
}

/// Runs a command as a part of the trace that TRACEPARENT names, if it does: whoever started it has a span for it.
async fn within_parent<T>(command: impl Future<Output = T>) -> T {
    let state = variable("TRACESTATE").unwrap_or_default();
    match variable("TRACEPARENT").and_then(|parent| TraceContext::new(&parent, &state).ok()) {
        Some(parent) => Traces::within(&parent, command).await,
        None => command.await,
    }
}

/// An environment variable; an empty one is none.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
