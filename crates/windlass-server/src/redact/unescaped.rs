//! Texts as they are meant where a program quoted them.

use super::escapes::{Escape, is_begun};

/// A text with its escapes read, and where each of its bytes stands in the text that it was made of.
pub(super) struct Unescaped {
    pub(super) text: String,
    /// By the byte; the end of the text, too.
    at: Vec<usize>,
    /// Its end was cut off, perhaps within an escape.
    pub(super) is_cut: bool,
}

impl Unescaped {
    /// A text as it is.
    pub(super) fn of(text: &str, is_cut: bool) -> Self {
        Self { text: text.to_owned(), at: (0..=text.len()).collect(), is_cut }
    }

    /// With its escapes read; `None` where there are none. What is quoted twice is read twice.
    pub(super) fn read(&self, escape: Escape) -> Option<Self> {
        let (mut text, mut at) = (String::with_capacity(self.text.len()), Vec::with_capacity(self.at.len()));
        let mut rest = self.text.as_str();
        while let Some(next) = rest.chars().next() {
            let begins = self.at[self.text.len() - rest.len()];
            let read = escape(rest);
            if self.is_cut && read.is_none() && is_begun(rest) {
                break; // nobody knows what it would have been
            }
            let (read, length) = read.unwrap_or((next, next.len_utf8()));
            text.push(read);
            at.resize(text.len(), begins);
            rest = &rest[length..];
        }
        at.extend(self.at.last());
        (text.len() < self.text.len()).then_some(Self { text, at, ..*self })
    }

    /// As it is meant where a form was sent: a space is a plus there, and a plus has an escape. `None` where there is none.
    pub(super) fn of_form(&self) -> Option<Self> {
        let text = self.text.replace('+', " ");
        (text != self.text).then(|| Self { text, at: self.at.clone(), ..*self })
    }

    /// Where the bytes from `start` to `end` stand in the first text.
    pub(super) fn place(&self, start: usize, end: usize) -> (usize, usize) {
        (self.at[start], self.at[end])
    }
}

#[cfg(test)]
mod tests {
    use super::{super::escapes::any, *};

    #[test]
    fn escapes_are_read_and_places_kept() {
        let quoted = r#"a\"b\u00e4\/\ud83d\ude00\b\f\x\u12"#;
        let read = Unescaped::of(quoted, false).read(any).unwrap();
        assert_eq!(read.text, "a\"bä/😀\u{8}\u{c}\\x\\u12");
        let at = read.text.find('ä').unwrap();
        let (start, end) = read.place(at, at + 'ä'.len_utf8());
        assert_eq!(&quoted[start..end], r"\u00e4");
        assert_eq!(read.place(0, read.text.len()), (0, quoted.len()));
        assert!(read.read(any).is_none() && Unescaped::of("plain", false).read(any).is_none());
    }

    #[test]
    fn the_end_of_what_was_cut_may_be_half_an_escape() {
        for half in [
            r"\",
            r"\u00",
            r"\ud83d\ude",
            r"\U0001F60",
            r"\u{1f60",
            r"\xc3\x",
            "%",
            "%C3%A",
            "&#x1F60",
            "&quo",
        ] {
            let text = format!("ab{half}");
            let read = Unescaped::of(&text, true).read(any).unwrap();
            assert_eq!((read.text.as_str(), read.place(0, 2)), ("ab", (0, text.len())), "{half}");
            let whole = Unescaped::of(&text, false).read(any);
            assert!(whole.is_none_or(|read| read.text.len() > 2), "{half}");
        }
    }
}
