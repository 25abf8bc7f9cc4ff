//! Backoffs as people write them.

use crate::duration;
use windlass::RetryPolicy;

/// Reads `linear:10s`, `exponential:15s:1h`, `fixed:1m`: how the delay grows, the first one, and perhaps the longest.
pub(super) fn parse(text: &str) -> Result<RetryPolicy, String> {
    let wrong = |what: &str| {
        format!("{what} in backoff {text:?}; write it like linear:10s, exponential:15s:1h or fixed:1m")
    };
    let mut parts = text.split(':');
    let make = match parts.next() {
        Some("exponential") => RetryPolicy::exponential,
        Some("linear") => RetryPolicy::linear,
        Some("fixed") => RetryPolicy::fixed,
        _ => return Err(wrong("unknown kind")),
    };
    let base = parts.next().ok_or_else(|| wrong("no first delay"))?;
    let policy = make(duration::parse(base)?);
    let Some(longest) = parts.next() else { return Ok(policy) };
    if text.starts_with("fixed") || parts.next().is_some() {
        return Err(wrong("too many delays"));
    }
    let max = duration::parse(longest)?;
    if max < policy.base {
        return Err(wrong("the longest delay is shorter than the first"));
    }
    Ok(RetryPolicy { max, ..policy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn backoffs_read_as_written() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        assert_eq!(parse("linear:1m"), Ok(RetryPolicy::linear(minutes(1))));
        assert_eq!(parse("fixed:1m"), Ok(RetryPolicy::fixed(minutes(1))));
        let capped = RetryPolicy { max: minutes(60), ..RetryPolicy::exponential(minutes(2)) };
        assert_eq!(parse("exponential:2m:1h"), Ok(capped));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "linear",
            "linear:",
            "cubic:1s",
            "linear:-1s",
            "linear:1h:1s",
            "fixed:1s:2s",
            "linear:1s:2s:3s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
