//! Text for terminals and for machines. Users' data never reaches a terminal unescaped.

use serde::Serialize;
use std::fmt::Write;

/// Whether a character could steer a terminal or hide text: controls, marks of writing direction, and what takes no room and joins nothing.
fn is_unsafe(c: char) -> bool {
    let hides = matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    hides || c.is_control()
}

/// The text on one line, with everything that could steer a terminal written as an escape.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_unsafe(c) => escaped.extend(c.escape_default()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Several lines, each [escaped](escape).
pub fn escape_lines(text: &str, indent: &str) -> String {
    text.lines().fold(String::new(), |mut lines, line| {
        let _ = writeln!(lines, "{indent}{}", escape(line));
        lines
    })
}

/// At most `most` characters, escaped; what is cut off shows as an ellipsis.
pub fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", escape(&text[..end])),
        None => escape(text),
    }
}

/// One JSON document. Controls beyond ASCII, which JSON allows in strings, are escaped: the reader gets
/// the same value, a terminal gets no command.
pub fn json_text<T: Serialize>(value: &T) -> String {
    harmless(&serde_json::to_string_pretty(value).expect("output types serialise"))
}

/// The same on one line.
pub fn json_line<T: Serialize>(value: &T) -> String {
    harmless(&serde_json::to_string(value).expect("output types serialise")).replace('\n', " ")
}

fn harmless(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => text.push(c),
            // No string has them: they stand between the values of args, as whoever wrote these indented them.
            '\t' | '\r' => text.push(' '),
            c if is_unsafe(c) => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(escape("a\u{1b}[31mb\n\t\0\u{9b}\u{202e}ä"), "a\\u{1b}[31mb\\n\\t\\u{0}\\u{9b}\\u{202e}ä");
        assert_eq!(escape_lines("a\u{1b}\nb", "  "), "  a\\u{1b}\n  b\n");
    }

    #[test]
    fn json_keeps_its_value_without_raw_controls() {
        let value = "a\u{1b}\u{9b}\u{7f}\u{202e}\u{61c}\u{200b}\u{2028}\u{feff}ä\n";
        for json in [json_text(&[value]), json_line(&[value])] {
            assert!(!json.trim_end().chars().any(|c| c != '\n' && is_unsafe(c)), "{json:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap()[0], value);
        }
        let indented = RawValue::from_string("{\t\"a\":\r\n1}".to_owned()).unwrap();
        assert_eq!(json_text(&indented), "{ \"a\": \n1}");
        assert_eq!(json_line(&indented), "{ \"a\":  1}");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(shorten("äöü", 2), "äö…");
        assert_eq!(shorten("äöü", 3), "äöü");
    }
}
