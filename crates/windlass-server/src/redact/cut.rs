//! Texts of which the store kept the beginning: it may end within what is to be hidden.

use windlass::Limits;

/// The most that one character has, and so what is missing of a text that was cut before one.
const CHARACTER: usize = 3;

/// A text; what says at its end that there was more of it; and whether there was.
pub(super) fn cut(text: &str) -> (&str, &str, bool) {
    let kept = text.rfind("… (cut: ").filter(|at| {
        let note = text[*at..].strip_prefix("… (cut: ").and_then(|note| note.strip_suffix(" bytes)"));
        note.is_some_and(|length| !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit()))
    });
    // That of an error says nothing at its end.
    let of_errors = Limits::MAX_ERROR_BYTES - CHARACTER..=Limits::MAX_ERROR_BYTES;
    let (kept, note) = text.split_at(kept.unwrap_or(text.len()));
    (kept, note, !note.is_empty() || of_errors.contains(&text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_is_known() {
        for (length, is_cut) in [(Limits::MAX_LOG_LINE_BYTES, false), (Limits::MAX_LOG_LINE_BYTES + 1, true)]
        {
            let line = Limits::storable_line(&"x".repeat(length));
            let (kept, note, is) = cut(&line);
            assert_eq!((is, note.is_empty(), kept.len() + note.len()), (is_cut, !is_cut, line.len()));
            assert!(kept.bytes().all(|byte| byte == b'x'));
        }
        for (text, is_cut) in
            [("x".repeat(20_000), true), ("x😀".repeat(5_000), true), ("x".repeat(16_000), false)]
        {
            assert_eq!(cut(&Limits::storable_error(&text)).2, is_cut);
        }
        for text in ["", "… (cut: ", "… (cut:  bytes)", "… (cut: 7 bytes) and more", "… (cut: x bytes)"]
        {
            assert_eq!(cut(text), (text, "", false));
        }
    }
}
