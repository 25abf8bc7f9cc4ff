//! Bounds on what only some jobs have.

use super::Limits;
use crate::{Attributes, Error, ErrorKind, Result, RetryPolicy, When};
use jiff::Timestamp;
use std::time::Duration;

/// The fastest growth of an exponential backoff.
const MAX_FACTOR: f64 = 1e6;

pub(super) fn check(attributes: &Attributes, when: When) -> Result<()> {
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
    if let Some(timeout) = attributes.timeout {
        Limits::check_timeout(timeout)?;
        if timeout > Limits::LONGEST {
            return refuse(format!("timeout must be at most 100 years, got {timeout:?}"));
        }
    }
    let most = Limits::MAX_COST;
    if let Some(cost) = attributes.cost.filter(|cost| !(1..=most).contains(cost)) {
        return refuse(format!("the cost of a job must be 1 to {most}, got {cost}"));
    }
    check_tags(&attributes.tags)?;
    check_expiry(attributes, when)?;
    attributes.retry_policy.as_ref().map_or(Ok(()), check_retry_policy)
}

fn check_tags(tags: &[String]) -> Result<()> {
    let most = Limits::MAX_TAGS;
    if tags.len() > most {
        return refuse(format!("a job has at most {most} tags, got {}; meta has room for more", tags.len()));
    }
    tags.iter().try_for_each(|tag| check_tag(tag))
}

/// Checks a tag.
pub(super) fn check_tag(tag: &str) -> Result<()> {
    let longest = Limits::MAX_TAG_BYTES;
    if (1..=longest).contains(&tag.len()) && !tag.chars().any(char::is_control) {
        return Ok(());
    }
    refuse(format!(
        "a tag must be 1 to {longest} bytes without control characters, got {} bytes: {:?}",
        tag.len(),
        super::shorten(tag)
    ))
}

/// Two times or two delays can be compared; one of each is left to the store's clock.
fn check_expiry(attributes: &Attributes, when: When) -> Result<()> {
    match (when, attributes.expires_at, attributes.expires_after) {
        (_, _, Some(Duration::ZERO)) => {
            refuse("an expiry of 0 leaves no time to start the job; leave it out".to_owned())
        }
        (_, _, Some(after)) if after > Limits::LONGEST => {
            refuse(format!("expiry must be at most 100 years, got {after:?}; leave it out"))
        }
        (_, Some(at), _) if at < Timestamp::UNIX_EPOCH => {
            refuse(format!("expires_at must be a time since 1970, got {at}"))
        }
        (When::At(due), Some(at), _) if at <= due => {
            refuse(format!("the job expires at {at}, but it is due at {due}: it would never run"))
        }
        (When::After(delay), _, Some(after)) if after <= delay => refuse(format!(
            "the job expires after {after:?}, but it is due after {delay:?}: it would never run"
        )),
        _ => Ok(()),
    }
}

pub(super) fn check_retry_policy(policy: &RetryPolicy) -> Result<()> {
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

    fn refused(attributes: &Attributes) -> String {
        refused_when(attributes, When::Now)
    }

    fn refused_when(attributes: &Attributes, when: When) -> String {
        let error = check(attributes, when).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    }

    #[test]
    fn absurd_timeouts_are_refused() {
        let of = |timeout| Attributes { timeout: Some(timeout), ..Attributes::default() };
        for fine in [Duration::from_nanos(1), Duration::from_secs(1), Limits::LONGEST] {
            check(&of(fine), When::Now).unwrap();
        }
        assert_eq!(refused(&of(Duration::ZERO)), "a timeout of 0 leaves no time for the job");
        assert!(refused(&of(Duration::MAX)).starts_with("timeout must be at most 100 years, got"));
    }

    #[test]
    fn costs_are_bounded() {
        let of = |cost| Attributes { cost: Some(cost), ..Attributes::default() };
        for fine in [1, 5, Limits::MAX_COST] {
            check(&of(fine), When::Now).unwrap();
        }
        assert_eq!(refused(&of(0)), "the cost of a job must be 1 to 1000000, got 0");
        assert!(refused(&of(Limits::MAX_COST + 1)).ends_with("got 1000001"));
    }

    #[test]
    fn tags_are_bounded() {
        let of = |tags: &[&str]| Attributes {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..Attributes::default()
        };
        for fine in [&["a b", "ä:1", &"x".repeat(100)][..], &["t"; 20]] {
            check(&of(fine), When::Now).unwrap();
        }
        for (tags, says) in [
            (&["t"; 21][..], "at most 20 tags, got 21"),
            (&["fine", ""], "got 0 bytes"),
            (&[&"x".repeat(101)], "got 101 bytes"),
            (&["a\0b"], "control characters"),
        ] {
            let error = refused(&of(tags));
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn an_expiry_leaves_time_to_run() {
        let (second, noon) = (Duration::from_secs(1), Timestamp::UNIX_EPOCH);
        let after = |after| Attributes { expires_after: Some(after), ..Attributes::default() };
        let at = |at| Attributes { expires_at: Some(at), ..Attributes::default() };
        for (fine, when) in [
            (after(second), When::Now),
            (after(2 * second), When::After(second)),
            (at(noon), When::Now),
            (at(noon + second), When::At(noon)),
            (at(noon), When::After(second)),
        ] {
            check(&fine, when).unwrap();
        }
        assert!(refused(&after(Duration::ZERO)).contains("leaves no time"));
        assert!(refused(&at(Timestamp::MIN)).contains("must be a time since 1970"));
        assert!(refused(&after(Duration::MAX)).contains("at most 100 years"));
        for (never, when) in [(at(noon), When::At(noon)), (after(second), When::After(second))] {
            assert!(refused_when(&never, when).ends_with("it would never run"));
        }
    }

    #[test]
    fn absurd_retry_policies_are_refused_by_name() {
        let fine = RetryPolicy::default();
        let of = |policy| Attributes { retry_policy: Some(policy), ..Attributes::default() };
        check(&of(fine), When::Now).unwrap();
        for (policy, says) in [
            (RetryPolicy { base: Duration::MAX, ..fine }, "base of a retry policy must be at most 100 years"),
            (RetryPolicy { max: Duration::MAX, ..fine }, "max of a retry policy"),
            (RetryPolicy { factor: 0.5, ..fine }, "factor of a retry policy must be 1 to 1000000, got 0.5"),
            (RetryPolicy { factor: f64::NAN, ..fine }, "got NaN"),
            (RetryPolicy { jitter: -0.1, ..fine }, "jitter of a retry policy must be 0 to 1, got -0.1"),
            (RetryPolicy { jitter: f64::INFINITY, ..fine }, "got inf"),
        ] {
            let error = refused(&of(policy));
            assert!(error.contains(says), "{error}");
        }
    }
}
