use crate::{Args, Error, ErrorKind, Limits, NewJob, Result};
use serde::Deserialize;
use std::borrow::Cow;

/// The member of a job's meta that has the [`TraceContext::traceparent`].
const TRACEPARENT: &str = "traceparent";
/// The member of a job's meta that has the [`TraceContext::tracestate`].
const TRACESTATE: &str = "tracestate";
/// What a carrier of `tracestate` has to take at least, and what we take at most; in bytes.
const MAX_TRACESTATE: usize = 512;

/// Which trace a job belongs to: a [W3C trace context](https://www.w3.org/TR/trace-context/), carried in its
/// [meta](crate::Attributes::meta) as the members `traceparent` and `tracestate`.
///
/// ```
/// use windlass_core::{Args, NewJob, TraceContext};
/// # fn main() -> windlass_core::Result<()> {
/// let context = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")?;
/// let mut jobs = [NewJob::new("resize", Args::parse("{}")?).with_meta(Args::parse(r#"{"tenant": "acme"}"#)?)];
/// context.carry(&mut jobs);
/// let meta = jobs[0].attributes().unwrap().meta.as_ref().unwrap();
/// assert_eq!(
///     meta.as_str(),
///     r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tenant": "acme"}"#
/// );
/// assert_eq!(TraceContext::of_meta(meta), Some(context));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: String,
}

impl TraceContext {
    /// Takes the values of the headers `traceparent` and `tracestate`; the latter may be empty. One that nobody has to
    /// take (longer than 512 bytes, or not of printable ASCII) is left out, as the standard has it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when `traceparent` is not what the standard says.
    pub fn new(traceparent: &str, tracestate: &str) -> Result<Self> {
        if !is_traceparent(traceparent) {
            let message = format!(
                "traceparent must be like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, got {traceparent:.64?}"
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let takes =
            tracestate.len() <= MAX_TRACESTATE && tracestate.bytes().all(|b| matches!(b, b' '..=b'~'));
        let tracestate = if takes { tracestate.trim() } else { "" };
        Ok(Self { traceparent: traceparent.to_owned(), tracestate: tracestate.to_owned() })
    }

    /// The context that a job's meta carries, if it has a valid one.
    pub fn of_meta(meta: &Args) -> Option<Self> {
        #[derive(Deserialize)]
        struct Carried<'a> {
            #[serde(borrow)]
            traceparent: Cow<'a, str>,
            #[serde(borrow, default)]
            tracestate: Cow<'a, str>,
        }
        // Most have none; they are not parsed.
        meta.as_str().contains(TRACEPARENT).then_some(())?;
        let carried: Carried<'_> = serde_json::from_str(meta.as_str()).ok()?;
        Self::new(&carried.traceparent, &carried.tracestate).ok()
    }

    /// Has the meta of jobs carry it. A job whose meta already says of which trace it is, or has no room, stays as it is: no job is
    /// refused for its trace.
    pub fn carry(&self, jobs: &mut [NewJob]) {
        // Most have no meta of their own: theirs is made once.
        let alone = Args::parse("{}").ok().and_then(|empty| carrying(&empty, self));
        for job in jobs {
            let meta = match job.attributes().and_then(|attributes| attributes.meta.as_ref()) {
                Some(meta) => carrying(meta, self),
                None => alone.clone(),
            };
            meta.into_iter().for_each(|meta| job.set_meta(meta));
        }
    }

    /// Version, trace, span and flags, as in the header of this name.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// What tracing systems add for themselves, as in the header of this name; may be empty.
    pub fn tracestate(&self) -> &str {
        &self.tracestate
    }

    /// The trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[3..35]
    }

    /// The span: 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        &self.traceparent[36..52]
    }

    /// Whether the sender records its part of the trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.traceparent[53..55], 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

/// Meta with the context in it; `None` where it says already of which trace the job is, has no room, or is no object.
fn carrying(meta: &Args, context: &TraceContext) -> Option<Args> {
    let fits = |meta: &Args| meta.len() <= Limits::MAX_META_BYTES;
    let meta = meta.with_member(TRACEPARENT, context.traceparent()).ok()?.filter(fits)?;
    if context.tracestate().is_empty() {
        return Some(meta);
    }
    let whole = meta.with_member(TRACESTATE, context.tracestate()).ok().flatten().filter(fits);
    Some(whole.unwrap_or(meta))
}

/// Whether it is one of [version 00](https://www.w3.org/TR/trace-context/#traceparent-header), or begins like one in a later version.
fn is_traceparent(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |from: usize, to: usize| {
        let digits = bytes.get(from..to).unwrap_or_default();
        digits.len() == to - from && digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |from: usize, to: usize| bytes[from..to].iter().all(|&b| b == b'0');
    let dash = |at: usize| bytes.get(at) == Some(&b'-');
    let shaped = hex(0, 2) && dash(2) && hex(3, 35) && dash(35) && hex(36, 52) && dash(52) && hex(53, 55);
    let ends =
        bytes.len() == 55 || (!text.starts_with("00") && bytes.len() <= 128 && dash(55) && text.is_ascii());
    shaped && ends && !text.starts_with("ff") && !zero(3, 35) && !zero(36, 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn job(meta: Option<&str>) -> NewJob {
        let job = NewJob::new("k", Args::parse("{}").unwrap());
        meta.map_or(job.clone(), |meta| job.with_meta(Args::parse(meta).unwrap()))
    }

    fn carried(meta: Option<&str>, tracestate: &str) -> String {
        let mut jobs = [job(meta)];
        TraceContext::new(KNOWN, tracestate).unwrap().carry(&mut jobs);
        jobs[0]
            .attributes()
            .and_then(|a| a.meta.as_ref())
            .map_or(String::new(), |meta| meta.as_str().to_owned())
    }

    #[test]
    fn only_what_the_standard_says_is_a_traceparent() {
        assert!(is_traceparent(KNOWN) && is_traceparent(&KNOWN.replacen("00", "cc", 1)));
        assert!(is_traceparent(&format!("{}-more", KNOWN.replacen("00", "01", 1))));
        for bad in [
            "",
            "00",
            &KNOWN[..54],
            &format!("{KNOWN}-more"),
            &format!("{KNOWN}0"),
            &KNOWN.to_uppercase(),
            &KNOWN.replacen("00", "ff", 1),
            &KNOWN.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &KNOWN.replace("b7ad6b7169203331", &"0".repeat(16)),
            &KNOWN.replace('-', "_"),
            &format!("01{}-ü", &KNOWN[2..]),
        ] {
            assert!(TraceContext::new(bad, "").is_err(), "{bad}");
        }
        let context = TraceContext::new(KNOWN, "").unwrap();
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((context.span_id(), context.is_sampled()), ("b7ad6b7169203331", true));
        assert!(!TraceContext::new(&format!("{}0", &KNOWN[..54]), "").unwrap().is_sampled());
    }

    #[test]
    fn the_rest_of_the_meta_stays_as_it_was_written() {
        assert_eq!(carried(None, ""), format!(r#"{{"traceparent":"{KNOWN}"}}"#));
        assert_eq!(carried(Some(" { } "), ""), format!(r#"{{"traceparent":"{KNOWN}"}}"#));
        assert_eq!(
            carried(Some(r#"{ "n": 1.50 }"#), "a=1"),
            format!(r#"{{"tracestate":"a=1","traceparent":"{KNOWN}", "n": 1.50 }}"#)
        );
        let own = r#"{"traceparent":"mine"}"#;
        assert_eq!(carried(Some(own), ""), own);
    }

    #[test]
    fn no_job_is_refused_for_its_trace() {
        let full = format!(r#"{{"x":"{}"}}"#, "x".repeat(Limits::MAX_META_BYTES - 8));
        assert_eq!(carried(Some(&full), ""), full);
        assert_eq!(carried(Some("[1]"), ""), "[1]");
        assert_eq!(carried(None, &"s".repeat(513)), carried(None, ""));
        assert_eq!(carried(None, "a=\u{7}"), carried(None, ""));
    }

    #[test]
    fn meta_without_a_valid_one_has_none() {
        for meta in ["{}", "[]", r#"{"traceparent":7}"#, r#"{"traceparent":"x"}"#, r#""traceparent""#] {
            assert_eq!(TraceContext::of_meta(&Args::parse(meta).unwrap()), None, "{meta}");
        }
        let escaped = KNOWN.replacen('-', "\\u002d", 1);
        let meta = Args::parse(&format!(r#"{{"traceparent":"{escaped}","tracestate":"a=1"}}"#)).unwrap();
        assert_eq!(TraceContext::of_meta(&meta).unwrap().tracestate(), "a=1");
    }
}
