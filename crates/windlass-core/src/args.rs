use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The deepest nesting of arrays and objects that args may have.
pub(crate) const MAX_DEPTH: usize = 64;

/// A job's arguments: one valid JSON value, kept byte for byte as written.
///
/// Windlass never parses args; only handlers do. Construction guarantees what every store can keep:
/// valid JSON, no NUL (`\u0000`), nested at most 64 deep. The size limit is checked on enqueue,
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
    /// [`ErrorKind::InvalidArgs`] when the text is not one JSON value, contains NUL or nests too deep.
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
    /// [`ErrorKind::InvalidArgs`] when the value does not serialise (a map with non-string keys, say),
    /// contains NUL or nests too deep.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let raw = serde_json::value::to_raw_value(value).map_err(not_json)?;
        check_shape(raw.get())?;
        Ok(Self(raw))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
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

/// One pass over the text: nesting depth, and NUL as an escape. Runs before the JSON parser so that a
/// bomb of brackets never reaches it; in well-formed JSON it counts exactly.
fn check_shape(json: &str) -> Result<()> {
    let (mut depth, mut in_string) = (0_usize, false);
    let mut bytes = json.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                if json.as_bytes()[at + 1..].starts_with(b"u0000") {
                    return Err(Error::new(
                        ErrorKind::InvalidArgs,
                        format!(
                            "args contain NUL (\\u0000) at byte {at}; remove it or encode it, for example as base64"
                        ),
                    ));
                }
                bytes.next();
            }
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Error::new(
                        ErrorKind::InvalidArgs,
                        format!("args nest deeper than {MAX_DEPTH} levels at byte {at}; flatten them"),
                    ));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text_byte_for_byte() {
        for json in [r#"{"b":1,"a":1.50}"#, "null", "\"x\"", "[ 1, 2 ]", "12345678901234567890123"] {
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
    fn bounds_nesting_and_ignores_brackets_in_strings() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(Args::parse(&nested(MAX_DEPTH)).is_ok());
        assert!(Args::parse(&nested(MAX_DEPTH + 1)).is_err());
        assert!(Args::parse(&nested(100_000)).is_err());
        assert!(Args::from_store(&nested(100_000)).is_ok());
        assert!(Args::parse(&format!("\"{}\"", "[".repeat(1000))).is_ok());
    }
}
