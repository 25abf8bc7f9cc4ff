//! Bounds on what only some jobs have.

use super::Limits;
use crate::{Attributes, Error, ErrorKind, Result, RetryPolicy};
use std::time::Duration;

/// The fastest growth of an exponential backoff.
const MAX_FACTOR: f64 = 1e6;

pub(super) fn check(attributes: &Attributes) -> Result<()> {
    if let Some(key) = &attributes.key {
        Limits::check_key("a key", key)?;
    }
    if let Some(meta) = &attributes.meta {
        let (size, most) = (meta.len(), Limits::MAX_META_BYTES);
        if size > most || !meta.as_str().trim_start().starts_with('{') {
            let message = format!(
                "meta must be a JSON object of at most {most} bytes, got {size} bytes: {:.40}",
                meta.as_str()
            );
            return Err(Error::new(ErrorKind::InvalidArgs, message));
        }
    }
    match attributes.timeout {
        Some(Duration::ZERO) => return refuse("a timeout of 0 leaves no time for the job".to_owned()),
        Some(timeout) if timeout > Limits::LONGEST => {
            return refuse(format!("timeout must be at most 100 years, got {timeout:?}"));
        }
        _ => {}
    }
    attributes.retry_policy.as_ref().map_or(Ok(()), check_retry_policy)
}

fn check_retry_policy(policy: &RetryPolicy) -> Result<()> {
    for (name, value) in [("base", policy.base), ("max", policy.max)] {
        if value > Limits::LONGEST {
            return refuse(format!("{name} of a retry policy must be at most 100 years, got {value:?}"));
        }
    }
    if !(1.0..=MAX_FACTOR).contains(&policy.factor) {
        return refuse(format!("factor of a retry policy must be 1 to {MAX_FACTOR}, got {}", policy.factor));
    }
    if !(0.0..=1.0).contains(&policy.jitter) {
        return refuse(format!("jitter of a retry policy must be 0 to 1, got {}", policy.jitter));
    }
    Ok(())
}

fn refuse(message: String) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(attributes: Attributes) -> String {
        let error = check(&attributes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    }

    #[test]
    fn absurd_timeouts_are_refused() {
        let of = |timeout| Attributes { timeout: Some(timeout), ..Attributes::default() };
        for fine in [Duration::from_nanos(1), Duration::from_secs(1), Limits::LONGEST] {
            check(&of(fine)).unwrap();
        }
        assert_eq!(refused(of(Duration::ZERO)), "a timeout of 0 leaves no time for the job");
        assert!(refused(of(Duration::MAX)).starts_with("timeout must be at most 100 years, got"));
    }

    #[test]
    fn absurd_retry_policies_are_refused_by_name() {
        let fine = RetryPolicy::default();
        let of = |policy| Attributes { retry_policy: Some(policy), ..Attributes::default() };
        check(&of(fine)).unwrap();
        for (policy, says) in [
            (RetryPolicy { base: Duration::MAX, ..fine }, "base of a retry policy must be at most 100 years"),
            (RetryPolicy { max: Duration::MAX, ..fine }, "max of a retry policy"),
            (RetryPolicy { factor: 0.5, ..fine }, "factor of a retry policy must be 1 to 1000000, got 0.5"),
            (RetryPolicy { factor: f64::NAN, ..fine }, "got NaN"),
            (RetryPolicy { jitter: -0.1, ..fine }, "jitter of a retry policy must be 0 to 1, got -0.1"),
            (RetryPolicy { jitter: f64::INFINITY, ..fine }, "got inf"),
        ] {
            let error = refused(of(policy));
            assert!(error.contains(says), "{error}");
        }
    }
}
