//! `unique(...)` of `#[job(...)]`.

use crate::value::{duration, set, text};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use std::time::Duration;
use syn::{
    Data, DeriveInput, Error, Fields, LitStr, Result, Token, ext::IdentExt, meta::ParseNestedMeta,
    parenthesized, punctuated::Punctuated, spanned::Spanned, token::Paren,
};

/// The rules of `windlass_core::UniqueKey`. That crate stays out of what is built for the compiler; a test compares.
const MAX_KEY_BYTES: usize = 200;
const MAX_FIELDS: usize = 32;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(36_600 * 86_400);

const UNKNOWN: &str = "unknown option of unique; known are args, fields(..), key, scope, until, window, on_conflict and max_wait";

/// What `unique(fields("user"), scope = "queue")` says.
pub(crate) struct Unique {
    span: Span,
    source: Source,
    in_queue: bool,
    until_started: bool,
    window: Option<Duration>,
    rule: Rule,
    max_wait: Option<Duration>,
}

enum Source {
    Args,
    Fields(Vec<LitStr>),
    Key(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Keep,
    Replace,
    Extend,
    Error,
}

/// What the parentheses hold, as it is read.
#[derive(Default)]
struct Options {
    source: Option<Source>,
    scope: Option<bool>,
    until: Option<bool>,
    window: Option<Duration>,
    rule: Option<Rule>,
    max_wait: Option<Duration>,
}

impl Unique {
    pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut options = Options::default();
        if meta.input.peek(Paren) {
            meta.parse_nested_meta(|option| options.take(&option))?;
        } else if meta.input.peek(Token![=]) {
            return Err(meta.error(
                "write unique for all args, or unique(..) with what makes the key, like unique(fields(\"user\"))",
            ));
        }
        options.build(meta.path.span())
    }

    /// Refuses what cannot work for this type.
    pub(crate) fn check(&self, input: &DeriveInput, encrypted: bool) -> Result<()> {
        if encrypted && !matches!(self.source, Source::Key(_)) {
            let message = "encrypted args make no key that is kept: give one for the kind here, like unique(key = \"nightly\"), \
                 or for each job by NewJob::with_unique(Unique::by_key(..))";
            return Err(Error::new(self.span, message));
        }
        let (Source::Fields(named), Some(known)) = (&self.source, plain_fields(input)) else { return Ok(()) };
        for field in named {
            if !known.contains(&field.value()) {
                let message = format!("{} has no field {:?}; it has {known:?}", input.ident, field.value());
                return Err(Error::new(field.span(), message));
            }
        }
        Ok(())
    }
}

/// The fields of the args, where no attribute of serde can make them others.
fn plain_fields(input: &DeriveInput) -> Option<Vec<String>> {
    let Data::Struct(data) = &input.data else { return None };
    let Fields::Named(fields) = &data.fields else { return None };
    let mut attributes = input.attrs.iter().chain(fields.named.iter().flat_map(|field| &field.attrs));
    if attributes.any(|attribute| attribute.path().is_ident("serde") || attribute.path().is_ident("cfg_attr"))
    {
        return None;
    }
    Some(fields.named.iter().filter_map(|field| Some(field.ident.as_ref()?.unraw().to_string())).collect())
}

impl Options {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "args" => self.set_source(meta, |_| Ok(Source::Args)),
            "fields" => self.set_source(meta, fields),
            "key" => self.set_source(meta, key),
            "scope" => set(&mut self.scope, meta, |meta| one_of(meta, &[("kind", false), ("queue", true)])),
            "until" => {
                set(&mut self.until, meta, |meta| one_of(meta, &[("finished", false), ("started", true)]))
            }
            "window" => set(&mut self.window, meta, span_of_time),
            "on_conflict" => set(&mut self.rule, meta, |meta| {
                let rules = [
                    ("keep", Rule::Keep),
                    ("replace", Rule::Replace),
                    ("extend", Rule::Extend),
                    ("error", Rule::Error),
                ];
                one_of(meta, &rules)
            }),
            "max_wait" => set(&mut self.max_wait, meta, span_of_time),
            _ => Err(meta.error(UNKNOWN)),
        }
    }

    fn set_source(
        &mut self,
        meta: &ParseNestedMeta<'_>,
        read: impl FnOnce(&ParseNestedMeta<'_>) -> Result<Source>,
    ) -> Result<()> {
        if self.source.is_some() {
            return Err(meta.error("a job is unique by args, by fields(..) or by key; keep one"));
        }
        self.source = Some(read(meta)?);
        Ok(())
    }

    fn build(self, span: Span) -> Result<Unique> {
        let Self { source, scope, until, window, rule, max_wait } = self;
        let rule = rule.unwrap_or(Rule::Keep);
        let refuse = |message: &str| Err(Error::new(span, message));
        if until.is_some() && window.is_some() {
            return refuse(
                "a job has its key until it is started or finished, or for a window; keep one of until and window",
            );
        }
        if rule == Rule::Extend && window.is_none() {
            return refuse("on_conflict = \"extend\" needs a window to extend, like window = \"5m\"");
        }
        if max_wait.is_some() && rule != Rule::Replace {
            return refuse("max_wait goes with on_conflict = \"replace\"");
        }
        let source = source.unwrap_or(Source::Args);
        let (in_queue, until_started) = (scope.unwrap_or(false), until.unwrap_or(false));
        Ok(Unique { span, source, in_queue, until_started, window, rule, max_wait })
    }
}

fn fields(meta: &ParseNestedMeta<'_>) -> Result<Source> {
    let example = "name the fields in parentheses, like fields(\"user\", \"day\")";
    if !meta.input.peek(Paren) {
        return Err(meta.error(example));
    }
    let within;
    parenthesized!(within in meta.input);
    let named = Punctuated::<LitStr, Token![,]>::parse_terminated(&within)
        .map_err(|error| Error::new(error.span(), example))?;
    let named: Vec<LitStr> = named.into_iter().collect();
    if named.is_empty() || named.len() > MAX_FIELDS {
        return Err(meta.error(format!("name 1 to {MAX_FIELDS} fields, got {}", named.len())));
    }
    for (place, field) in named.iter().enumerate() {
        if named[..place].iter().any(|earlier| earlier.value() == field.value()) {
            return Err(Error::new(field.span(), format!("field {:?} is named twice", field.value())));
        }
    }
    Ok(Source::Fields(named))
}

fn key(meta: &ParseNestedMeta<'_>) -> Result<Source> {
    let key = text(meta, "key = \"nightly\"")?;
    match is_key(&key.value()) {
        true => Ok(Source::Key(key.value())),
        false => {
            let message = format!("a unique key must be 1 to {MAX_KEY_BYTES} bytes without NUL");
            Err(Error::new(key.span(), message))
        }
    }
}

fn is_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len()) && !key.contains('\0')
}

fn span_of_time(meta: &ParseNestedMeta<'_>) -> Result<Duration> {
    let (literal, time) = duration(meta, "window = \"5m\"")?;
    match is_span(time) {
        true => Ok(time),
        false => Err(Error::new(literal.span(), "write a time of a millisecond to 100 years, like \"5m\"")),
    }
}

fn is_span(time: Duration) -> bool {
    (SHORTEST..=LONGEST).contains(&time)
}

fn one_of<T: Copy>(meta: &ParseNestedMeta<'_>, known: &[(&str, T)]) -> Result<T> {
    let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    let literal = text(meta, &format!("{name} = {:?}", known[0].0))?;
    match known.iter().find(|(word, _)| *word == literal.value()) {
        Some((_, value)) => Ok(*value),
        None => {
            let words: Vec<_> = known.iter().map(|(word, _)| format!("{word:?}")).collect();
            Err(Error::new(literal.span(), format!("{name} is one of {}", words.join(", "))))
        }
    }
}

impl ToTokens for Unique {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let duration = |duration: Duration| {
            let (seconds, nanoseconds) = (duration.as_secs(), duration.subsec_nanos());
            quote!(::core::time::Duration::new(#seconds, #nanoseconds))
        };
        let mut made = match &self.source {
            Source::Args => quote!(::windlass::Unique::by_args()),
            Source::Fields(fields) => quote!(::windlass::Unique::by_fields([#(#fields),*])),
            Source::Key(key) => quote!(::windlass::Unique::by_key(#key)),
        };
        if self.in_queue {
            made.extend(quote!(.in_queue()));
        }
        if self.until_started {
            made.extend(quote!(.until_started()));
        }
        if let Some(window) = self.window.map(duration) {
            made.extend(quote!(.for_window(#window)));
        }
        let rule = match self.rule {
            Rule::Keep => quote!(Keep),
            Rule::Extend => quote!(Extend),
            Rule::Error => quote!(Error),
            Rule::Replace => match self.max_wait.map(duration) {
                Some(wait) => quote!(Replace { max_wait: ::core::option::Option::Some(#wait) }),
                None => quote!(Replace { max_wait: ::core::option::Option::None }),
            },
        };
        if self.rule != Rule::Keep {
            made.extend(quote!(.on_conflict(::windlass::OnConflict::#rule)));
        }
        tokens.extend(made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{Args, NewJob, UniqueKey};

    fn fits(unique: windlass_core::Unique, args: &str) -> bool {
        let args = Args::parse(args).expect("args");
        UniqueKey::of(&NewJob::new("k", args).with_unique(unique)).is_ok()
    }

    #[test]
    fn the_rules_are_those_of_the_store() {
        use windlass_core::Unique;
        for key in ["", "a", "a\0", "ä\n", &"a".repeat(200), &"a".repeat(201)] {
            assert_eq!(is_key(key), fits(Unique::by_key(key), "1"), "{key:?}");
        }
        let nano = Duration::from_nanos(1);
        for time in [Duration::ZERO, SHORTEST - nano, SHORTEST, LONGEST, LONGEST + nano, Duration::MAX] {
            assert_eq!(is_span(time), fits(Unique::by_args().for_window(time), "1"), "{time:?}");
        }
        for count in [0, 1, MAX_FIELDS, MAX_FIELDS + 1] {
            let names: Vec<String> = (0..count).map(|n| format!("f{n}")).collect();
            let args: Vec<String> = names.iter().map(|name| format!("{name:?}: 1")).collect();
            let args = format!("{{{}}}", args.join(","));
            assert_eq!(
                (1..=MAX_FIELDS).contains(&count),
                fits(Unique::by_fields(names), &args),
                "{count} fields"
            );
        }
    }
}
