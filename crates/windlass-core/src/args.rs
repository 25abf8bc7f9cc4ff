use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// The deepest nesting of arrays and objects that args may have.
pub(crate) const MAX_DEPTH: usize = 64;

/// A job's arguments: one valid JSON value, kept byte for byte as written.
///
/// Windlass never parses args; only handlers do. Construction guarantees what every store can keep:
/// valid JSON, no NUL (`\u0000`), nested at most 64 deep; and what every handler can read: no half of a
/// surrogate pair (`\ud800`), no number beyond an `f64` (`1e400`). The size limit is checked on enqueue,
/// because it is an [option](crate::Limits).
///
/// ```
/// use windlass_core::Args;
/// # fn main() -> windlass_core::Result<()> {
/// let args = Args::parse(r#"{"user": 7}"#)?;
/// assert_eq!(args.as_str(), r#"{"user": 7}"#);
/// assert!(Args::parse(r#"{"name": "a\u0000b"}"#).is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Args(Box<RawValue>);

impl Args {
    /// Takes JSON text as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when the text is not one JSON value, contains NUL, half of a surrogate pair or a
    /// number beyond an `f64`, or nests too deep.
    pub fn parse(json: &str) -> Result<Self> {
        check_shape(json)?;
        let raw = serde_json::from_str::<Box<RawValue>>(json).map_err(not_json)?;
        Ok(Self(raw))
    }

    /// Takes JSON text that a store kept. Only that it is one JSON value is checked: who wrote it by other
    /// means than this crate may have gone beyond its limits, and it must still be shown.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when the text is not one JSON value.
    pub fn from_store(json: &str) -> Result<Self> {
        Ok(Self(serde_json::from_str::<Box<RawValue>>(json).map_err(not_json)?))
    }

    /// Serialises a value to JSON.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when the value does not serialise (a map with non-string keys, say), or to what
    /// [`Self::parse`] refuses.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let raw = serde_json::value::to_raw_value(value).map_err(not_json)?;
        check_shape(raw.get())?;
        Ok(Self(raw))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The same object with one more member, a text, before the others, whose text stays as it is; `None` when it has a member of
    /// this name.
    ///
    /// ```
    /// # use windlass_core::Args;
    /// # fn main() -> windlass_core::Result<()> {
    /// let meta = Args::parse(r#"{"n": 1.50}"#)?;
    /// assert_eq!(meta.with_member("tenant", "acme")?.unwrap().as_str(), r#"{"tenant":"acme","n": 1.50}"#);
    /// assert_eq!(meta.with_member("n", "acme")?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when these are no object, or the text has a NUL.
    pub fn with_member(&self, name: &str, value: &str) -> Result<Option<Self>> {
        let known: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(self.as_str()).map_err(not_json)?;
        if known.contains_key(name) {
            return Ok(None);
        }
        let text = self.as_str().trim();
        let rest = if known.is_empty() { "" } else { &text[1..text.len() - 1] };
        let comma = if known.is_empty() { "" } else { "," };
        let (name, value) = (serde_json::Value::from(name), serde_json::Value::from(value));
        Self::parse(&format!("{{{name}:{value}{comma}{rest}}}")).map(Some)
    }

    /// The size in bytes, which [`Limits::max_args_bytes`](crate::Limits) bounds.
    pub fn len(&self) -> usize {
        self.as_str().len()
    }

    /// Never true: the shortest JSON value is one byte. Present because [`Self::len`] is.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Equal when the texts are.
impl PartialEq for Args {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Args {}

fn not_json(cause: serde_json::Error) -> Error {
    Error::new(ErrorKind::InvalidArgs, format!("args are not valid JSON: {cause}")).with_source(cause)
}

/// One pass over the text: nesting depth, escapes that are no character, numbers that are too large. Runs before
/// the JSON parser so that a bomb of brackets never reaches it; in well-formed JSON it is exact.
fn check_shape(json: &str) -> Result<()> {
    let bytes = json.as_bytes();
    let (mut depth, mut in_string, mut at) = (0_usize, false, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at = check_escape(bytes, at)?,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(refused(format!(
                        "args nest deeper than {MAX_DEPTH} levels at byte {at}; flatten them"
                    )));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => at = check_number(json, at)?,
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The last byte of the escape that begins at the backslash `at`.
fn check_escape(bytes: &[u8], at: usize) -> Result<usize> {
    let Some(unit) = code_unit(&bytes[at..]) else { return Ok(at + 1) };
    match unit {
        0 => Err(refused(format!(
            "args contain NUL (\\u0000) at byte {at}; remove it or encode it, for example as base64"
        ))),
        0xD800..=0xDBFF if matches!(bytes.get(at + 6..).and_then(code_unit), Some(0xDC00..=0xDFFF)) => {
            Ok(at + 11)
        }
        0xD800..=0xDFFF => Err(refused(format!(
            "args contain half of a surrogate pair (\\u{unit:04x}) at byte {at}, which is no character; \
             write both halves or remove it"
        ))),
        _ => Ok(at + 5),
    }
}

/// The UTF-16 unit of the `\uXXXX` that `text` begins with.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

/// A number of no more bytes, without an exponent, is below 10^300.
const SURELY_FINITE: usize = 300;

/// The last byte of the number that begins `at`. What serde_json reads as a number but not as an `f64` is refused.
fn check_number(json: &str, at: usize) -> Result<usize> {
    let rest = &json[at..];
    let length = rest
        .bytes()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        .count();
    let number = &rest[..length];
    let may_overflow = length > SURELY_FINITE || number.contains(['e', 'E']);
    if may_overflow
        && serde_json::from_str::<f64>(number).is_err()
        && serde_json::from_str::<&RawValue>(number).is_ok()
    {
        return Err(refused(format!(
            "args contain a number beyond 1.8e308 at byte {at}, which handlers cannot read; write it as a string"
        )));
    }
    Ok(at + length - 1)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgs, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text_byte_for_byte() {
        for json in [r#"{"b":1,"a":1.50}"#, "null", "\"x\"", "[ 1, 2 ]", "12345678901234567890123", "1e3"] {
            assert_eq!(Args::parse(json).unwrap().as_str(), json);
        }
    }

    #[test]
    fn refuses_what_is_not_one_json_value() {
        for text in ["", "{", "{a:1}", "1 2", "\u{0}", "\"\u{0}\"", "nul", "[1,]", "'x'"] {
            assert_eq!(Args::parse(text).unwrap_err().kind(), ErrorKind::InvalidArgs, "{text:?}");
        }
    }

    #[test]
    fn refuses_nul_but_not_an_escaped_backslash_before_u0000() {
        assert!(Args::parse(r#""a\u0000""#).is_err());
        assert!(Args::parse(r#"{"a\u0000":1}"#).is_err());
        assert!(Args::parse(r#""a\\\u0000""#).is_err());
        assert!(Args::parse(r#""a\\u0000""#).is_ok());
        assert!(Args::of("a\0b").is_err());
    }

    #[test]
    fn refuses_what_no_handler_can_read() {
        for (text, at) in [
            (r#""\ud800""#, 1),
            (r#"["ab\uDFFF"]"#, 4),
            (r#"{"\ud83d\u0041": 1}"#, 2),
            (r#""\ud83dx""#, 1),
            (r#""\ud83d\\ude00""#, 1),
            ("1e400", 0),
            ("[1, -1e999]", 4),
            (&format!("[{}]", "9".repeat(400)), 1),
        ] {
            let error = Args::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgs);
            assert!(error.to_string().contains(&format!("at byte {at}")), "{text}: {error}");
        }
        let raw = RawValue::from_string("1e400".into()).unwrap();
        assert_eq!(Args::of(&[raw]).unwrap_err().kind(), ErrorKind::InvalidArgs);
    }

    #[test]
    fn keeps_what_a_handler_can_read() {
        for text in [
            r#""\ud83d\ude00""#,
            r#""\\ud800""#,
            r#""\uFFFF""#,
            r#""1e400""#,
            "1e308",
            "1e-400",
            "0e999",
            "-0.5E+3",
            "18446744073709551616",
            &"9".repeat(308),
        ] {
            assert_eq!(Args::parse(text).unwrap().as_str(), text);
            serde_json::from_str::<serde_json::Value>(text).unwrap();
        }
    }

    #[test]
    fn bounds_nesting_and_ignores_brackets_in_strings() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(Args::parse(&nested(MAX_DEPTH)).is_ok());
        assert!(Args::parse(&nested(MAX_DEPTH + 1)).is_err());
        assert!(Args::parse(&nested(100_000)).is_err());
        assert!(Args::from_store(&nested(100_000)).is_ok());
        assert!(Args::parse(&format!("\"{}\"", "[".repeat(1000))).is_ok());
    }
}
