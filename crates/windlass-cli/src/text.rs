//! Text for terminals and for machines. Users' data never reaches a terminal unescaped.

use serde::Serialize;
use std::fmt::Write;

/// Whether a character could steer a terminal or hide text: controls, and marks of writing direction.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
    let json = serde_json::to_string_pretty(value).expect("output types serialise");
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => text.push(c),
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

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(escape("a\u{1b}[31mb\n\t\0\u{9b}\u{202e}ä"), "a\\u{1b}[31mb\\n\\t\\u{0}\\u{9b}\\u{202e}ä");
        assert_eq!(escape_lines("a\u{1b}\nb", "  "), "  a\\u{1b}\n  b\n");
    }

    #[test]
    fn json_keeps_its_value_without_raw_controls() {
        let value = "a\u{1b}\u{9b}\u{7f}\u{202e}ä\n";
        let json = json_text(&[value]);
        assert!(!json.chars().any(|c| c != '\n' && is_unsafe(c)), "{json:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap()[0], value);
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(shorten("äöü", 2), "äö…");
        assert_eq!(shorten("äöü", 3), "äöü");
    }
}
