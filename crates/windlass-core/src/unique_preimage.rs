//! What a unique job is known by: 16 bytes that every language computes alike. The page docs/design/unique.md specifies
//! them, conformance/vectors/unique.json has examples.

use crate::{
    Error, ErrorKind, Limits, NewJob, Result, Unique, UniqueKey, UniqueScope, UniqueUntil,
    limits::shorten,
    unique::{OnConflict, Source},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The most fields that a key may be made of.
const MOST_FIELDS: usize = 32;
/// Whole numbers up to this are told apart by an `f64`, which is what JSON's canonical form knows.
const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;
/// Windows and waits may be this short.
const SHORTEST: Duration = Duration::from_millis(1);

impl UniqueKey {
    /// The key of a job that says it is unique; `None` for others.
    ///
    /// ```
    /// use windlass_core::{Args, NewJob, Unique, UniqueKey};
    /// # fn main() -> windlass_core::Result<()> {
    /// let job = |args| Ok::<_, windlass_core::Error>(NewJob::new("mail", Args::parse(args)?).with_unique(Unique::by_args()));
    /// let key = UniqueKey::of(&job(r#"{"a": 1, "b": 2}"#)?)?;
    /// assert_eq!(key, UniqueKey::of(&job(r#"{"b":2.0,"a":1}"#)?)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `invalid_option` for a description that cannot work, `invalid_args` for args that have not what the key is made of, or
    /// numbers that cannot be told apart.
    pub fn of(job: &NewJob) -> Result<Option<Self>> {
        let Some(unique) = job.unique() else { return Ok(None) };
        check(unique)?;
        let preimage = preimage(unique, job)?;
        let digest = Sha256::digest(preimage.as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Ok(Some(Self(key)))
    }

    /// The text whose SHA-256 begins with the key: for tests of other languages.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn preimage(job: &NewJob) -> Result<Option<String>> {
        job.unique().map(|unique| check(unique).and_then(|()| preimage(unique, job))).transpose()
    }
}

/// `["kind", "mail.send", "fields", {"user": 7}]`, in its canonical form.
fn preimage(unique: &Unique, job: &NewJob) -> Result<String> {
    let (scope, name) = match unique.scope() {
        UniqueScope::Kind => ("kind", job.kind()),
        UniqueScope::Queue => ("queue", job.queue()),
    };
    let (source, value) = match &unique.source {
        Source::Key(key) => ("key", Value::from(key.as_str())),
        Source::Args => ("args", exact(args_of(job)?, job)?),
        Source::Fields(fields) => ("fields", exact(fields_of(fields, job)?, job)?),
    };
    serde_json_canonicalizer::to_string(&json!([scope, name, source, value])).map_err(|cause| {
        let message = format!("args of kind {:?} have no canonical form: {cause}", shorten(job.kind()));
        Error::new(ErrorKind::InvalidArgs, message).with_source(cause)
    })
}

fn args_of(job: &NewJob) -> Result<Value> {
    serde_json::from_str(job.args().as_str()).map_err(|cause| {
        Error::new(ErrorKind::InvalidArgs, format!("args are not valid JSON: {cause}")).with_source(cause)
    })
}

fn fields_of(fields: &[String], job: &NewJob) -> Result<Value> {
    let kind = shorten(job.kind());
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgs, message));
    let Value::Object(args) = args_of(job)? else {
        return refuse(format!(
            "a job of kind {kind:?} is unique by fields of its args, so these must be an object"
        ));
    };
    let mut chosen = Map::new();
    for field in fields {
        let Some(value) = args.get(field) else {
            let has: Vec<&str> = args.keys().map(String::as_str).take(MOST_FIELDS).collect();
            return refuse(format!(
                "a job of kind {kind:?} is unique by field {field:?}, which its args do not have; they have {has:?}"
            ));
        };
        chosen.insert(field.clone(), value.clone());
    }
    Ok(Value::Object(chosen))
}

/// Refuses numbers that the canonical form could not tell from others: two jobs would be taken for one.
fn exact(value: Value, job: &NewJob) -> Result<Value> {
    match inexact(&value) {
        None => Ok(value),
        Some(number) => Err(Error::new(
            ErrorKind::InvalidArgs,
            format!(
                "a job of kind {:?} is unique by args with the number {number}, which is beyond 2^53 and so not the same in \
                 every language; write it as a string, or leave its field out of the key",
                shorten(job.kind())
            ),
        )),
    }
}

fn inexact(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let beyond = number.as_f64().is_none_or(|number| number.abs() > LARGEST_EXACT);
            beyond.then(|| number.to_string())
        }
        Value::Array(values) => values.iter().find_map(inexact),
        Value::Object(fields) => fields.values().find_map(inexact),
        _ => None,
    }
}

fn check(unique: &Unique) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
    match &unique.source {
        Source::Key(key) => Limits::check_key("a unique key", key)?,
        Source::Fields(fields) if fields.is_empty() || fields.len() > MOST_FIELDS => {
            return refuse(format!("a unique job names 1 to {MOST_FIELDS} fields, got {}", fields.len()));
        }
        Source::Fields(_) | Source::Args => {}
    }
    let check_time = |what: &str, time: Duration| match (SHORTEST..=Limits::LONGEST).contains(&time) {
        true => Ok(()),
        false => refuse(format!("{what} must be a millisecond to 100 years, got {time:?}")),
    };
    match (unique.until(), unique.conflict_rule()) {
        (UniqueUntil::Window(window), _) => check_time("the window of a unique job", window)?,
        (_, OnConflict::Extend) => {
            return refuse(
                "a unique job that extends needs a window to extend; give it one, or keep the first"
                    .to_owned(),
            );
        }
        _ => {}
    }
    match unique.conflict_rule() {
        OnConflict::Replace { max_wait: Some(wait) } => check_time("max_wait of a unique job", wait),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "unique_preimage_tests.rs"]
mod tests;
