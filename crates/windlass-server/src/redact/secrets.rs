use super::{Verbatim, finder::Finder, hidden, unescaped::Unescaped};
use std::{cmp::Reverse, collections::BTreeSet, sync::OnceLock};

/// Shorter texts are hidden where they stand, and not looked for elsewhere: they would be found everywhere.
const SHORTEST: usize = 4;
/// How often a text is read: as it stands, and what was quoted, and quoted again.
const QUOTED: usize = 4;

/// Values that were hidden, to hide them in texts too. All of them, however many: they are no more than one job has.
#[derive(Default)]
pub(crate) struct Secrets {
    texts: BTreeSet<String>,
    /// Of these texts, once they were looked for.
    finder: OnceLock<Finder>,
}

impl Secrets {
    pub(super) fn note(&mut self, value: &Verbatim) {
        match value {
            Verbatim::Array(items) => items.iter().for_each(|item| self.note(item)),
            Verbatim::Object(fields) => fields.iter().for_each(|(_, value)| self.note(value)),
            Verbatim::Text(text) => self.push(text),
            Verbatim::Plain(plain) => self.note_plain(plain.get()),
        }
    }

    /// A number as it is written, and as programs write it that read it as a double.
    fn note_plain(&mut self, plain: &str) {
        if matches!(plain, "true" | "false" | "null") {
            return;
        }
        self.push(plain);
        if let Ok(double) = plain.parse::<f64>()
            && double.is_finite()
        {
            self.push(&double.to_string());
            self.push(&format!("{double:?}"));
            let exponent = format!("{double:e}");
            self.push(&exponent);
            // JavaScript and Python write the sign of the exponent, too.
            if !exponent.contains("e-") {
                self.push(&exponent.replace('e', "e+"));
            }
        }
    }

    fn push(&mut self, text: &str) {
        if text.len() >= SHORTEST && !self.texts.contains(text) {
            self.texts.insert(text.to_owned());
            self.finder.take();
        }
    }

    /// Hides them in all texts of a value.
    pub(crate) fn scrub(&self, value: &mut Verbatim) {
        match value {
            Verbatim::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Verbatim::Object(fields) => fields.iter_mut().for_each(|(_, value)| self.scrub(value)),
            Verbatim::Text(text) => *text = self.scrubbed(text),
            Verbatim::Plain(_) => {}
        }
    }

    /// A text without them, also where a program quoted them: in what its escapes mean, and those in that.
    pub(crate) fn scrubbed(&self, text: &str) -> String {
        if self.texts.is_empty() || text.len() < SHORTEST {
            return text.to_owned();
        }
        let mut found = Vec::new();
        let mut read = Some(Unescaped::of(text));
        for _ in 0..QUOTED {
            let Some(level) = read else { break };
            self.find(&level, &mut found);
            read = level.read();
        }
        found.sort_unstable_by_key(|(start, end, _)| (*start, Reverse(*end)));
        let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
        for (start, its_end, characters) in found {
            if start >= end {
                shown.push_str(&text[end..start]);
                shown.push_str(&hidden(characters));
            }
            end = its_end.max(end);
        }
        shown + &text[end..]
    }

    /// Where they stand, those within others too, and how many characters they have.
    fn find(&self, read: &Unescaped, found: &mut Vec<(usize, usize, usize)>) {
        let finder = self.finder.get_or_init(|| Finder::of(&self.texts));
        finder.find(&read.text, |one| {
            let (start, end) = read.place(one.start, one.end);
            found.push((start, end, one.characters));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Redaction, *};
    use serde_json::json;

    /// What is hidden of these args.
    fn secrets_of(args: &str) -> Secrets {
        let mut secrets = Secrets::default();
        Redaction::default().hide("k", &mut Verbatim::read(args).unwrap(), &mut secrets);
        secrets
    }

    #[test]
    fn hidden_values_are_hidden_in_errors_too() {
        let secrets = secrets_of(r#"{"token": {"a": "hunter2", "b": "hunter2-long", "c": "x"}}"#);
        let mut errors =
            Verbatim::of(&json!([{"error": "401 for hunter2-long, then hunter2 at x"}])).unwrap();
        secrets.scrub(&mut errors);
        assert_eq!(
            json!(errors)[0]["error"],
            "401 for ‹12 characters hidden›, then ‹7 characters hidden› at x"
        );
    }

    #[test]
    fn all_of_many_values_are_hidden_however_they_are_quoted() {
        let texts = (0..1_000).map(|n| format!("user-{n}@example.com"));
        let texts: Vec<String> =
            texts.chain(["user-1", "a \"b\"\nc", "pässwörd😀", "ab/cd+ef=="].map(str::to_owned)).collect();
        let secrets = secrets_of(&json!({ "token": texts }).to_string());
        for text in texts.iter().rev().step_by(25).chain(texts.iter().rev().take(4)) {
            let quoted = json!({ "to": text }).to_string();
            let twice = json!(quoted).to_string();
            // As Python and PHP write JSON.
            let ascii = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            let slashes = text.replace('/', "\\/");
            let length = text.chars().count();
            for error in [format!("550 for {text}: ä"), format!("{text:?}"), quoted, twice, ascii, slashes] {
                let shown = secrets.scrubbed(&error);
                assert!(shown.contains(&format!("‹{length} characters hidden›")), "{error}: {shown}");
            }
        }
        let meet = secrets_of(r#"{"token": ["abcd", "cdef"]}"#);
        assert_eq!(meet.scrubbed("abcdef g"), "‹4 characters hidden› g");
        let other = secrets.scrubbed("user-1 is no user-10@example.co, ends in user");
        assert_eq!(other, "‹6 characters hidden› is no ‹6 characters hidden›0@example.co, ends in user");
    }

    /// Each place of the text was compared with each of them, and all that they have alike: some 10^11 characters.
    #[test]
    fn many_values_that_begin_alike_are_looked_for_in_one_pass() {
        let texts: Vec<String> = (4..1_400).map(|length| "a".repeat(length) + "!").collect();
        let secrets = secrets_of(&json!({ "token": texts }).to_string());
        let text = "a".repeat(64 << 10);
        assert_eq!(secrets.scrubbed(&text), text);
        assert_eq!(secrets.scrubbed("aaaaa!"), "‹6 characters hidden›");
    }

    #[test]
    fn what_a_key_has_twice_and_every_digit_of_a_number_is_hidden() {
        let secrets = secrets_of(
            r#"{"token": "first-one", "token": null, "pass": 123456789012345678901234567890, "card": 4111.10}"#,
        );
        for text in
            ["first-one", "123456789012345678901234567890", "1.2345678901234568e+29", "4111.10", "4111.1"]
        {
            let length = text.len();
            assert_eq!(secrets.scrubbed(&format!("<{text}>")), format!("<‹{length} characters hidden›>"));
        }
        // As before: no number is true.
        assert_eq!(secrets_of(r#"{"token": [true, null]}"#).scrubbed("true null"), "true null");
    }
}
