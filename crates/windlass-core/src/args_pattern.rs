use crate::{Args, Envelope, Error, ErrorKind, Result};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// What args have to contain: a JSON object, as PostgreSQL's `@>` on `jsonb` means it. Each of its members must be there with that value; of
/// an object within it the same holds, and each item of an array must be contained in some item of the array there. Numbers are
/// equal by their value: `1.0` is `1`.
///
/// ```
/// use windlass_core::{Args, ArgsPattern};
/// # fn main() -> windlass_core::Result<()> {
/// let pattern = ArgsPattern::of(&Args::parse(r#"{"to": {"plan": "pro"}, "ids": [2]}"#)?)?;
/// assert!(pattern.is_in(r#"{"ids": [1, 2.0], "to": {"plan": "pro", "name": "Ada"}}"#));
/// assert!(!pattern.is_in(r#"{"ids": [1], "to": {"plan": "pro"}}"#));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ArgsPattern(Pattern);

#[derive(Clone, Debug)]
enum Pattern {
    Object(BTreeMap<String, Pattern>),
    Array(Vec<Pattern>),
    Text(String),
    Number(Decimal),
    /// `true`, `false` or `null`.
    Word(String),
}

/// A number by its value: `0.digits` times ten to the power.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    /// Without zeros at either end; none for 0.
    digits: String,
    power: i64,
}

impl ArgsPattern {
    /// The longest, in bytes: 16 KiB.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// Checks it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for what is no object, has no member, or is longer than [`Self::MAX_BYTES`].
    pub fn of(args: &Args) -> Result<Self> {
        let refuse =
            |message: &str| Error::new(ErrorKind::InvalidOption, format!("the filter by args {message}"));
        if args.len() > Self::MAX_BYTES {
            return Err(refuse(&format!("must be at most {} bytes, got {}", Self::MAX_BYTES, args.len())));
        }
        Args::parse(args.as_str())?; // it may come from elsewhere, with what no job has
        match Pattern::read(args.as_str()) {
            Some(Pattern::Object(members)) if members.is_empty() => {
                Err(refuse("names no member, so all args would match; name one, as in {\"user\": 7}"))
            }
            Some(pattern @ Pattern::Object(_)) => Ok(Self(pattern)),
            _ => Err(refuse("must be a JSON object, as in {\"user\": 7}")),
        }
    }

    /// Whether these args contain it. Encrypted ones never do.
    pub fn is_in(&self, args: &str) -> bool {
        !Envelope::is_one(args.as_bytes()) && self.0.is_in(args)
    }
}

impl Pattern {
    /// `None` where it is no JSON.
    fn read(json: &str) -> Option<Self> {
        let json = json.trim();
        Some(match json.as_bytes().first()? {
            b'{' => {
                let members = members(json)?.into_iter();
                let read = |(name, value): (Cow<'_, str>, &RawValue)| {
                    Some((name.into_owned(), Self::read(value.get())?))
                };
                Self::Object(members.map(read).collect::<Option<_>>()?)
            }
            b'[' => Self::Array(
                items(json)?.into_iter().map(|item| Self::read(item.get())).collect::<Option<_>>()?,
            ),
            b'"' => Self::Text(serde_json::from_str(json).ok()?),
            b'-' | b'0'..=b'9' => Self::Number(Decimal::read(json)),
            _ => Self::Word(json.to_owned()),
        })
    }

    fn is_in(&self, json: &str) -> bool {
        let json = json.trim();
        let first = json.as_bytes().first();
        match self {
            Self::Object(wanted) => {
                first == Some(&b'{')
                    && members(json).is_some_and(|there| {
                        let is_there = |(name, value): (&String, &Self)| {
                            there.get(name.as_str()).is_some_and(|other| value.is_in(other.get()))
                        };
                        wanted.iter().all(is_there)
                    })
            }
            Self::Array(wanted) => {
                first == Some(&b'[')
                    && items(json).is_some_and(|there| {
                        wanted.iter().all(|value| there.iter().any(|item| value.is_in(item.get())))
                    })
            }
            Self::Text(wanted) => {
                first == Some(&b'"')
                    && serde_json::from_str(json).is_ok_and(|text: Cow<'_, str>| text == *wanted)
            }
            Self::Number(wanted) => {
                matches!(first, Some(b'-' | b'0'..=b'9')) && Decimal::read(json) == *wanted
            }
            Self::Word(wanted) => json == wanted,
        }
    }
}

/// Of a name that comes twice the last counts, as in PostgreSQL.
fn members(json: &str) -> Option<BTreeMap<Cow<'_, str>, &RawValue>> {
    serde_json::from_str(json).ok()
}

fn items(json: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json).ok()
}

impl Decimal {
    /// Of a JSON number.
    fn read(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{part}");
        let significant = all.trim_start_matches('0');
        let leading = all.len() - significant.len();
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Self { negative: false, digits, power: 0 };
        }
        let exponent: i64 =
            exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
        let place = whole.len() as i64 - leading as i64;
        Self { negative, digits, power: exponent.saturating_add(place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(pattern: &str, args: &str) -> bool {
        ArgsPattern::of(&Args::parse(pattern).unwrap()).unwrap().is_in(args)
    }

    #[test]
    fn one_that_is_too_long_is_refused() {
        let of = |length: usize| {
            ArgsPattern::of(&Args::parse(&format!(r#"{{"a":"{}"}}"#, "x".repeat(length - 8))).unwrap())
        };
        of(ArgsPattern::MAX_BYTES).unwrap();
        let error = of(ArgsPattern::MAX_BYTES + 1).unwrap_err();
        assert!(error.to_string().contains("must be at most 16384 bytes, got 16385"), "{error}");
    }

    #[test]
    fn it_is_contained_as_in_postgresql() {
        for (pattern, args, expected) in [
            (r#"{"a":1}"#, r#" {"b":2, "a" : 1.0}"#, true),
            (r#"{"a":1}"#, r#"{"a":10}"#, false),
            (r#"{"a":1}"#, r#"{"a":2,"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"a":2}"#, false),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"{"a":1}"#, r#"[{"a":1}]"#, false),
            (r#"{"a":null}"#, r#"{"b":1}"#, false),
            (r#"{"a":null}"#, r#"{"a":null}"#, true),
            (r#"{"a":"ä"}"#, r#"{"a":"\u00e4"}"#, true),
            (r#"{"a":[1,1]}"#, r#"{"a":[3,1]}"#, true),
            (r#"{"a":[{"b":1}]}"#, r#"{"a":[{"b":1,"c":2}]}"#, true),
            (r#"{"a":[]}"#, r#"{"a":[1]}"#, true),
            (r#"{"a":[]}"#, r#"{"a":{}}"#, false),
            (r#"{"a":{}}"#, r#"{"a":{"b":1}}"#, true),
            (r#"{"a":[[1]]}"#, r#"{"a":[1]}"#, false),
            (r#"{"a":1}"#, r#"{"a":"#, false),
            (r#"{"a":true}"#, r#"{"a": true }"#, true),
            (r#"{"windlass.enc":{}}"#, r#"{"windlass.enc":{}}"#, false),
        ] {
            assert_eq!(is_in(pattern, args), expected, "{pattern} in {args}");
        }
    }

    #[test]
    fn numbers_are_equal_by_value() {
        let equal = ["1", "1.0", "10e-1", "0.1E1", "1e0", "1.00e+0"];
        assert!(equal.iter().all(|number| Decimal::read(number) == Decimal::read("1")));
        for (one, other) in
            [("1", "-1"), ("9007199254740993", "9007199254740992"), ("0.1", "0.10000000000000001")]
        {
            assert_ne!(Decimal::read(one), Decimal::read(other));
        }
        assert_eq!(Decimal::read("-0.0e5"), Decimal::read("0"));
        assert_eq!(Decimal::read("1200"), Decimal::read("1.2e3"));
    }

    #[test]
    fn it_is_an_object_with_members() {
        for (pattern, says) in
            [("[1]", "must be a JSON object"), ("{}", "names no member"), ("7", "must be a JSON object")]
        {
            let error = ArgsPattern::of(&Args::parse(pattern).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
