use crate::{
    backoff::Backoff,
    unique::Unique,
    value::{duration, set, text},
};
use std::{ops::RangeInclusive, time::Duration};
use syn::{Attribute, Error, Expr, LitInt, LitStr, Path, Result, meta::ParseNestedMeta};

/// The rules of `windlass_core::Limits`. That crate stays out of what is built for the compiler; a test compares.
const MAX_KIND_BYTES: usize = 200;
const MAX_QUEUE_BYTES: usize = 128;
const MAX_ATTEMPTS: u16 = 1_000;
const MAX_COST: u32 = 1_000_000;
const PRIORITIES: RangeInclusive<i16> = -100..=100;

const UNKNOWN: &str = "unknown attribute; known are kind, queue, priority, max_attempts, timeout, cost, backoff, retry_delay, key, encrypted and unique";

/// What `#[job(...)]` says.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u16>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cost: Option<u32>,
    pub(crate) encrypted: Option<()>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) retry_delay: Option<Path>,
    pub(crate) key: Option<LitStr>,
    pub(crate) unique: Option<Unique>,
}

impl Attributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| parsed.take(&meta))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "kind" => set(&mut self.kind, meta, kind),
            "queue" => set(&mut self.queue, meta, queue),
            "priority" => set(&mut self.priority, meta, priority),
            "max_attempts" => set(&mut self.max_attempts, meta, max_attempts),
            "timeout" => set(&mut self.timeout, meta, timeout),
            "cost" => set(&mut self.cost, meta, cost),
            "encrypted" => set(&mut self.encrypted, meta, |_| Ok(())),
            "backoff" => set(&mut self.backoff, meta, backoff),
            "retry_delay" => set(&mut self.retry_delay, meta, |meta| meta.value()?.parse()),
            "key" => set(&mut self.key, meta, |meta| text(meta, "key = \"tenant\"")),
            "unique" => set(&mut self.unique, meta, Unique::parse),
            _ => Err(meta.error(UNKNOWN)),
        }
    }
}

fn kind(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let kind = text(meta, "kind = \"mail.send\"")?;
    if is_kind(&kind.value()) {
        return Ok(kind);
    }
    let message =
        format!("invalid kind; use 1 to {MAX_KIND_BYTES} bytes without spaces or control characters");
    Err(Error::new(kind.span(), message))
}

fn is_kind(name: &str) -> bool {
    (1..=MAX_KIND_BYTES).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c.is_whitespace())
}

fn queue(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let queue = text(meta, "queue = \"mail\"")?;
    if is_queue(&queue.value()) {
        return Ok(queue);
    }
    let message = format!(
        "invalid queue name; use 1 to {MAX_QUEUE_BYTES} of letters, digits and _ - . : /, but not . or .."
    );
    Err(Error::new(queue.span(), message))
}

fn is_queue(name: &str) -> bool {
    (1..=MAX_QUEUE_BYTES).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b))
}

fn priority(meta: &ParseNestedMeta<'_>) -> Result<i16> {
    let (least, most) = (PRIORITIES.start(), PRIORITIES.end());
    let example = format!("write a number of {least} to {most}, like priority = 5");
    let value: Expr = meta.value()?.parse()?;
    let text = quote::quote!(#value).to_string().replace(' ', "");
    match text.parse() {
        Ok(number) if PRIORITIES.contains(&number) => Ok(number),
        _ => Err(Error::new_spanned(&value, example)),
    }
}

fn max_attempts(meta: &ParseNestedMeta<'_>) -> Result<u16> {
    let example = format!("write a number of 1 to {MAX_ATTEMPTS}, like max_attempts = 3");
    let value: Expr = meta.value()?.parse()?;
    let number = syn::parse2::<LitInt>(quote::quote!(#value)).and_then(|number| number.base10_parse());
    match number {
        Ok(number) if (1..=MAX_ATTEMPTS).contains(&number) => Ok(number),
        _ => Err(Error::new_spanned(&value, example)),
    }
}

fn cost(meta: &ParseNestedMeta<'_>) -> Result<u32> {
    let example = format!("write a number of 1 to {MAX_COST}, like cost = 5");
    let value: Expr = meta.value()?.parse()?;
    let number = syn::parse2::<LitInt>(quote::quote!(#value)).and_then(|number| number.base10_parse());
    match number {
        Ok(number) if (1..=MAX_COST).contains(&number) => Ok(number),
        _ => Err(Error::new_spanned(&value, example)),
    }
}

fn timeout(meta: &ParseNestedMeta<'_>) -> Result<Duration> {
    match duration(meta, "timeout = \"30s\"")? {
        (literal, Duration::ZERO) => {
            Err(Error::new(literal.span(), "a timeout of 0 leaves no time for the job"))
        }
        (_, timeout) => Ok(timeout),
    }
}

fn backoff(meta: &ParseNestedMeta<'_>) -> Result<Backoff> {
    let literal = text(meta, "backoff = \"linear:10s\"")?;
    Backoff::parse(&literal.value()).map_err(|message| Error::new(literal.span(), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{Args, Limits, NewJob};

    fn fits(kind: &str, queue: &str, attempts: u16) -> bool {
        let job = NewJob::new(kind.to_owned(), Args::of(&()).expect("args")).with_queue(queue.to_owned());
        Limits::default().check(&[job.with_max_attempts(attempts)]).is_ok()
    }

    #[test]
    fn the_rules_are_those_of_the_store() {
        let lengths = [0, 1, 127, 128, 129, 199, 200, 201].map(|length| "a".repeat(length));
        let names = ["a b", "a\u{a0}b", "a\nb", "ä", "a.b:c/d-e_f", "a,b", "7"].map(str::to_owned);
        for name in lengths.iter().chain(&names) {
            assert_eq!(is_kind(name), fits(name, "q", 1), "kind {name:?}");
            assert_eq!(is_queue(name), fits("k", name, 1), "queue {name:?}");
        }
        assert_eq!(MAX_COST, Limits::MAX_COST);
        assert_eq!(PRIORITIES, Limits::PRIORITY_MIN..=Limits::PRIORITY_MAX);
        assert_eq!((fits("k", "q", MAX_ATTEMPTS), fits("k", "q", MAX_ATTEMPTS + 1)), (true, false));
    }
}
