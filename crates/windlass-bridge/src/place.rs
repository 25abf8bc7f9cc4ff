//! Which field of a payload an error is about. serde tells a column, and of a text that users never see.

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

fn in_words(said: &str) -> String {
    let Some((said, expected)) = said.rsplit_once(", expected ") else { return said.to_owned() };
    let expected = match expected {
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "f32" | "f64" => "a number",
        other => other,
    };
    format!("{said}, expected {expected}")
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
