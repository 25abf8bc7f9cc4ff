use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::time::Duration;

/// What `backoff = "linear:10s:5m"` says.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// The function of `RetryPolicy` that makes it.
    make: &'static str,
    base: Duration,
    max: Option<Duration>,
}

impl Backoff {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let example = "write exponential, linear or fixed, the first delay and perhaps the longest, like \"linear:10s\" or \"exponential:15s:1h\"";
        let mut parts = text.split(':');
        let make = match parts.next() {
            Some("exponential") => "exponential",
            Some("linear") => "linear",
            Some("fixed") => "fixed",
            _ => return Err(format!("unknown backoff; {example}")),
        };
        let mut delay = || {
            let parsed = parts.next().map(|part| humantime::parse_duration(part.trim())).transpose();
            parsed.map_err(|cause| format!("{cause}; {example}"))
        };
        let base = delay()?.ok_or_else(|| format!("a backoff has a first delay; {example}"))?;
        let max = delay()?;
        if parts.next().is_some() || (make == "fixed" && max.is_some()) {
            return Err(format!("too many delays; {example}"));
        }
        if max.is_some_and(|max| max < base) {
            return Err("the longest delay is shorter than the first".to_owned());
        }
        Ok(Self { make, base, max })
    }
}

impl ToTokens for Backoff {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let duration = |duration: Duration| {
            let (seconds, nanoseconds) = (duration.as_secs(), duration.subsec_nanos());
            quote!(::core::time::Duration::new(#seconds, #nanoseconds))
        };
        let (make, base) = (quote::format_ident!("{}", self.make), duration(self.base));
        let policy = quote!(::windlass::RetryPolicy::#make(#base));
        tokens.extend(match self.max.map(duration) {
            Some(max) => quote!(::windlass::RetryPolicy { max: #max, ..#policy }),
            None => policy,
        });
    }
}
