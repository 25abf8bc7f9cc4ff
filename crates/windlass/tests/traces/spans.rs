use opentelemetry::{global::BoxedTracer, trace::TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracer, SdkTracerProvider, SpanData};
use windlass::Traces;

/// The spans that ended.
pub(crate) struct Recorded {
    exporter: InMemorySpanExporter,
    provider: SdkTracerProvider,
}

impl Recorded {
    pub(crate) fn all() -> Self {
        Self::sampled(Sampler::AlwaysOn)
    }

    pub(crate) fn none() -> Self {
        Self::sampled(Sampler::AlwaysOff)
    }

    fn sampled(sampler: Sampler) -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider =
            SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).with_sampler(sampler).build();
        Self { exporter, provider }
    }

    pub(crate) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("test")
    }

    pub(crate) fn traces(&self) -> Traces {
        Traces::new(BoxedTracer::new(Box::new(self.tracer())))
    }

    /// All of a name, in the order in which they ended.
    pub(crate) fn some<const N: usize>(&self, name: &str) -> [SpanData; N] {
        let spans = self.exporter.get_finished_spans().expect("are kept");
        let names: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
        let named: Vec<_> = spans.into_iter().filter(|span| span.name == name).collect();
        named.try_into().unwrap_or_else(|_| panic!("not {N} spans {name:?} among {names:?}"))
    }

    pub(crate) fn one(&self, name: &str) -> SpanData {
        let [span] = self.some(name);
        span
    }

    pub(crate) fn named<const N: usize>(&self, names: [&str; N]) -> [SpanData; N] {
        names.map(|name| self.one(name))
    }
}

pub(crate) fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name)?;
    Some(found.value.as_str().into_owned())
}
