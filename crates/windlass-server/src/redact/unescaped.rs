//! Texts as they are meant where a program quoted them.

/// A text with its escapes read, and where each of its bytes stands in the text that it was made of.
pub(super) struct Unescaped {
    pub(super) text: String,
    /// By the byte; the end of the text, too.
    at: Vec<usize>,
}

impl Unescaped {
    /// A text as it is.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), at: (0..=text.len()).collect() }
    }

    /// With its escapes read, those of JSON and what most languages have beside them; `None` where there are none. What is quoted twice is read twice.
    pub(super) fn read(&self) -> Option<Self> {
        let (mut text, mut at) = (String::with_capacity(self.text.len()), Vec::with_capacity(self.at.len()));
        let mut rest = self.text.as_str();
        while let Some(next) = rest.chars().next() {
            let begins = self.at[self.text.len() - rest.len()];
            let (read, length) = escape(rest).unwrap_or((next, next.len_utf8()));
            text.push(read);
            at.resize(text.len(), begins);
            rest = &rest[length..];
        }
        at.extend(self.at.last());
        (text.len() < self.text.len()).then_some(Self { text, at })
    }

    /// Where the bytes from `start` to `end` stand in the first text.
    pub(super) fn place(&self, start: usize, end: usize) -> (usize, usize) {
        (self.at[start], self.at[end])
    }
}

/// What a text begins with, if that is an escape, and how long this is.
fn escape(text: &str) -> Option<(char, usize)> {
    let rest = text.strip_prefix('\\')?;
    let sign = rest.chars().next()?;
    let plain = match sign {
        '"' | '\'' | '\\' | '/' => Some(sign),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'u' => None,
        _ => return None,
    };
    if let Some(plain) = plain {
        return Some((plain, 1 + sign.len_utf8()));
    }
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_number)
    };
    let first = unit(text)?;
    let second = text.get(6..).and_then(unit);
    match char::decode_utf16([first].into_iter().chain(second)).next()? {
        Ok(read) => Some((read, if read.len_utf16() == 2 { 12 } else { 6 })),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_places_kept() {
        let quoted = r#"a\"b\u00e4\/\ud83d\ude00\b\f\x\u12"#;
        let read = Unescaped::of(quoted).read().unwrap();
        assert_eq!(read.text, "a\"bä/😀\u{8}\u{c}\\x\\u12");
        let at = read.text.find('ä').unwrap();
        let (start, end) = read.place(at, at + 'ä'.len_utf8());
        assert_eq!(&quoted[start..end], r"\u00e4");
        assert_eq!(read.place(0, read.text.len()), (0, quoted.len()));
        assert!(read.read().is_none() && Unescaped::of("plain").read().is_none());
    }

    #[test]
    fn half_a_character_is_none() {
        for text in [r"\ud83d", r"\ud83d\u0041", r"\u+123", "\\", r"\uää"] {
            assert!(Unescaped::of(text).read().is_none_or(|read| !read.text.contains('\u{fffd}')), "{text}");
        }
    }
}
