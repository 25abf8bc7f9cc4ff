use sha2::{Digest, Sha256};

/// What errors of one cause have in common: a name for the kind of job and the [line of the error](telling_line) that says what it was, without what differs from one to the next: numbers,
/// ids, and what stands in quotes. 16 hexadecimal digits.
///
/// ```
/// use windlass_core::fingerprint;
/// let one = fingerprint("mail.send", "no answer from 10.0.0.7:5432 after 31 ms\n  at line 7");
/// let other = fingerprint("mail.send", "no answer from 10.0.0.91:5432 after 4 ms");
/// assert_eq!(one, other);
/// assert_ne!(one, fingerprint("mail.send", "no answer from the printer"));
/// assert_ne!(one, fingerprint("report.make", "no answer from 10.0.0.7:5432 after 31 ms"));
/// ```
pub fn fingerprint(kind: &str, error: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(kind);
    digest.update([0]);
    digest.update(pattern_of(telling_line(error)));
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The line of an error that says what it was: the first, or the last where Python tells first how it got there.
///
/// ```
/// use windlass_core::telling_line;
/// assert_eq!(telling_line("no route\n    at send (mail.js:7)"), "no route");
/// assert_eq!(telling_line("Traceback (most recent call last):\n  File \"mail.py\"\nKeyError: 'city'\n"), "KeyError: 'city'");
/// ```
pub fn telling_line(error: &str) -> &str {
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.next() {
        Some(first) if first.starts_with("Traceback (most recent call last)") => {
            lines.next_back().unwrap_or(first)
        }
        first => first.unwrap_or(""),
    }
}

/// The most of a line that counts, in bytes: what follows is rarely of the cause.
const MOST: usize = 500;

fn pattern_of(line: &str) -> String {
    let mut pattern = String::with_capacity(line.len().min(MOST));
    let mut left = line;
    while let Some(first) = left.chars().next() {
        if pattern.len() >= MOST {
            break;
        }
        let quoted = matches!(first, '"' | '\'' | '`').then(|| left[1..].find(first)).flatten();
        let word = left.find(|c: char| !c.is_alphanumeric()).unwrap_or(left.len());
        if let Some(end) = quoted.filter(|_| !pattern.ends_with(char::is_alphanumeric)) {
            pattern.push('"');
            left = &left[end + 2..];
        } else if word > 0 {
            let (said, rest) = left.split_at(word);
            pattern.push_str(if said.contains(|c: char| c.is_ascii_digit()) { "0" } else { said });
            left = rest;
        } else {
            pattern.push(first);
            left = &left[first.len_utf8()..];
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_differs_is_left_out() {
        for (line, pattern) in [
            ("timeout after 30s", "timeout after 0"),
            ("no user 7f3e2a90-1b2c-4d5e-8f90-123456789abc", "no user 0-0-0-0-0"),
            ("KeyError: 'city'", "KeyError: \""),
            ("can't open \"/tmp/x 7\": gone", "can't open \": gone"),
            ("it's the caller's", "it's the caller's"),
            ("größe 5 \u{1f600} `x`", "größe 0 \u{1f600} \""),
            ("'", "'"),
            ("", ""),
        ] {
            assert_eq!(pattern_of(line), pattern);
        }
        assert_eq!(telling_line("\n \n  RuntimeError: no\nTraceback"), "RuntimeError: no");
        assert_eq!(
            telling_line("Traceback (most recent call last):\n"),
            "Traceback (most recent call last):"
        );
        assert_eq!(telling_line(""), "");
    }

    #[test]
    fn what_comes_after_a_lines_beginning_is_of_no_cause() {
        let of = |end: &str| fingerprint("k", &("no ".repeat(200) + end));
        assert_eq!(of("room"), of("paper"));
    }

    proptest! {
        #[test]
        fn any_text_has_one(text in ".*") {
            prop_assert_eq!(fingerprint("k", &text).len(), 16);
        }
    }
}
