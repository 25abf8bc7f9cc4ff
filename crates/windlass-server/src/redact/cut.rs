//! Texts of which not all was kept: they may end, and begin, within what is to be hidden.

use windlass::Limits;

/// The most that one character has, and so what is missing of a text that was cut before one.
const CHARACTER: usize = 3;

/// What was kept of a text in one piece.
#[derive(Debug, PartialEq)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    /// Something stood before it.
    pub(super) begins_cut: bool,
    /// There was more of it.
    pub(super) ends_cut: bool,
    /// What says so behind it.
    pub(super) note: &'a str,
}

/// A text in its pieces.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut rest, note, ends_cut) = cut(text);
    let (mut pieces, mut begins_cut) = (Vec::new(), false);
    while let Some(left_out) = Limits::find_left_out(rest) {
        // With what parts it from the text: Python gives it a line.
        let start = left_out.start - usize::from(rest[..left_out.start].ends_with('\n'));
        let end = left_out.end + usize::from(rest[left_out.end..].starts_with(['\n', ' ']));
        pieces.push(Piece { text: &rest[..start], begins_cut, ends_cut: true, note: &rest[start..end] });
        (rest, begins_cut) = (&rest[end..], true);
    }
    pieces.push(Piece { text: rest, begins_cut, ends_cut, note });
    pieces
}

/// A text of which the store kept the beginning; what says at its end that there was more of it; and whether there was.
fn cut(text: &str) -> (&str, &str, bool) {
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

    #[test]
    fn what_was_left_out_parts_a_text() {
        let left_out = Limits::left_out(7);
        let text = format!("exit code 1: {left_out} a\n\n{left_out}\n\nb… (cut: 9 bytes)");
        let told = [format!("{left_out} "), format!("\n{left_out}\n")];
        let piece = |text, begins_cut, ends_cut, note| Piece { text, begins_cut, ends_cut, note };
        let expected = [
            piece("exit code 1: ", false, true, told[0].as_str()),
            piece("a\n", true, true, told[1].as_str()),
            piece("\nb", true, true, "… (cut: 9 bytes)"),
        ];
        assert_eq!(pieces(&text), expected);
        assert_eq!(pieces("all"), [piece("all", false, false, "")]);
        assert_eq!(pieces(&left_out), [piece("", false, true, &left_out), piece("", true, false, "")]);
    }
}
