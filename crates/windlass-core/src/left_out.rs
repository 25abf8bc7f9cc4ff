use crate::Limits;
use std::ops::Range;

/// Behind the number of bytes.
const LEFT_OUT: &str = " bytes are left out]";

impl Limits {
    /// What stands in an error where so many bytes were left out of it. The end of a secret may stand behind it, and the beginning of one before it, so
    /// whoever hides secrets looks [where it stands](Self::find_left_out). The Python package writes the same.
    ///
    /// ```
    /// use windlass_core::Limits;
    /// let error = format!("exit code 1: {} at last", Limits::left_out(700));
    /// assert_eq!(error, "exit code 1: [700 bytes are left out] at last");
    /// assert_eq!(Limits::find_left_out(&error), Some(13..37));
    /// ```
    pub fn left_out(bytes: u64) -> String {
        format!("[{bytes}{LEFT_OUT}")
    }

    /// Where something was left out of a text first, as [`Self::left_out`] says it.
    pub fn find_left_out(text: &str) -> Option<Range<usize>> {
        text.match_indices(LEFT_OUT).find_map(|(at, end)| {
            let before = text[..at].trim_end_matches(|c: char| c.is_ascii_digit());
            let is_one = before.len() < at && before.ends_with('[');
            is_one.then(|| before.len() - 1..at + end.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_it_is_found() {
        let one = Limits::left_out(u64::MAX);
        let text =
            format!("ä bytes are left out] [ bytes are left out] [x7 bytes are left out] {one}\n{one}");
        let found = Limits::find_left_out(&text).unwrap();
        assert_eq!((&text[found.clone()], &text[found.end..]), (&*one, &*format!("\n{one}")));
        for text in ["", "[]", "7 bytes are left out]", "[7 bytes are left out", "[-7 bytes are left out]"] {
            assert_eq!(Limits::find_left_out(text), None, "{text}");
        }
    }
}
