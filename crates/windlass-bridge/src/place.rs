//! Which field of a payload an error is about. serde tells a column, and of a text that users never see.

use jiff::Timestamp;

/// How what jiff says of a text begins that is no time.
const OF_TIMES: [&str; 5] =
    ["failed to parse ", "failed to find ", "parsed date ", "parsed time ", "expected four digit year"];

/// What serde says, with the name of the field instead of the column, in words that are not Rust's.
pub(crate) fn told(payload: &str, cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    // A payload is one line.
    let Some((said, _)) = text.rsplit_once(" at line 1 column ") else { return text };
    let said = in_words(said);
    // Those that name a field tell which one it is.
    match field(payload, cause.column()) {
        Some(name) if !said.contains(" field `") => format!("{name}: {said}"),
        _ => said,
    }
}

/// What serde says of a value that does not fit in what is JSON, without its place, in words that are not Rust's.
pub fn in_words(said: &str) -> String {
    // jiff's own words tell of the offset that a time has not, and of seconds.
    if said.contains("'Unix timestamp seconds' is not in the required range") {
        return format!("there is no such time; times go from {} to {}", Timestamp::MIN, Timestamp::MAX);
    }
    // It says what it read, and not what would do.
    if OF_TIMES.iter().any(|begin| said.starts_with(begin)) {
        return format!("{said}; write a time like 2031-01-31T08:00:00Z, or 2031-01-31T08:00:00+01:00");
    }
    // Of a number or a list in the place of a word serde_json says the same as of what is no JSON.
    if said == "expected value" {
        return "invalid type, expected one of the words that may stand here".to_owned();
    }
    let Some((said, expected)) = said.rsplit_once(", expected ") else { return said.to_owned() };
    let value: Option<i128> =
        said.strip_prefix("invalid value: integer `").and_then(|rest| rest.strip_suffix('`')?.parse().ok());
    let expected = match (value, bounds(expected)) {
        (Some(value), Some((_, most))) if value > most => format!("a whole number of at most {most}"),
        (Some(value), Some((least, _))) if value < least && least < 0 => {
            format!("a whole number of at least {least}")
        }
        (_, Some((0, _))) => "a whole number that is not negative".to_owned(),
        (_, Some(_)) => "a whole number".to_owned(),
        _ if matches!(expected, "f32" | "f64") => "a number".to_owned(),
        _ if expected.starts_with("struct ") => "an object".to_owned(),
        _ => expected.to_owned(),
    };
    // Of an array serde says how many values of the object it has.
    let is_array = expected == "an object" && said.starts_with("invalid length");
    format!("{}, expected {expected}", if is_array { "invalid type: sequence" } else { said })
}

/// Of a type of Rust's, where it is one of whole numbers.
fn bounds(name: &str) -> Option<(i128, i128)> {
    Some(match name {
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "i64" => (i64::MIN.into(), i64::MAX.into()),
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" | "usize" => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// The innermost field whose value is read before this column.
fn field(payload: &str, column: usize) -> Option<&str> {
    let mut open: Vec<Option<&str>> = Vec::new();
    let read = &payload.as_bytes()[..column.saturating_sub(1).min(payload.len())];
    let mut at = 0;
    while at < read.len() {
        match read[at] {
            b'{' | b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = at + 1 + end_of_text(&payload.as_bytes()[at + 1..])?;
                if payload.as_bytes().get(end + 1) == Some(&b':') {
                    *open.last_mut()? = payload.get(at + 1..end);
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    open.into_iter().flatten().next_back()
}

/// Where the quote is that ends a text.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while *text.get(at)? != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn no_word_is_of_rust() {
        for (said, told) in [
            (
                "invalid value: integer `100000`, expected u16",
                "invalid value: integer `100000`, expected a whole number of at most 65535",
            ),
            (
                "invalid value: integer `-1`, expected usize",
                "invalid value: integer `-1`, expected a whole number that is not negative",
            ),
            (
                "invalid type: string \", expected u16\", expected i16",
                "invalid type: string \", expected u16\", expected a whole number",
            ),
            (
                "invalid type: boolean `true`, expected struct JobSpec",
                "invalid type: boolean `true`, expected an object",
            ),
            (
                "invalid length 2, expected struct JobSpec with 24 elements",
                "invalid type: sequence, expected an object",
            ),
            ("missing field `kind`", "missing field `kind`"),
            ("expected value", "invalid type, expected one of the words that may stand here"),
        ] {
            assert_eq!(in_words(said), told);
        }
        for text in
            ["soon", "", "2031-01-31", "2031-01-31T08:00:00", "2031-02-30T08:00:00Z", "2031-01-31T25:00:00Z"]
        {
            let error = serde_json::from_str::<jiff::Timestamp>(&format!("\"{text}\"")).unwrap_err();
            let told = in_words(&error.to_string());
            assert!(
                told.ends_with("; write a time like 2031-01-31T08:00:00Z, or 2031-01-31T08:00:00+01:00"),
                "{told}"
            );
        }
        // The largest of Python, and what people write for never.
        for time in ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59+00:00"] {
            let error = serde_json::from_str::<jiff::Timestamp>(&format!("\"{time}\"")).unwrap_err();
            let told = in_words(&error.to_string());
            let range = "times go from -009999-01-02T01:59:59Z to 9999-12-30T22:00:00.999999999Z";
            assert_eq!(told, format!("there is no such time; {range}"));
        }
    }
}
