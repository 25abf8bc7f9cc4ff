use super::{hidden, unescaped::Unescaped};
use serde_json::Value;
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    ops::Bound::{Included, Unbounded},
};

/// Shorter texts are hidden where they stand, and not looked for elsewhere: they would be found everywhere.
const SHORTEST: usize = 4;
/// How often a text is read: as it stands, and what was quoted, and quoted again.
const QUOTED: usize = 4;

/// Values that were hidden, to hide them in texts too. All of them, however many: they are no more than one job has.
#[derive(Default)]
pub(crate) struct Secrets(BTreeSet<String>);

impl Secrets {
    pub(super) fn note(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.note(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.note(value)),
            Value::String(text) => self.push(text),
            Value::Number(number) => self.push(&number.to_string()),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if text.len() >= SHORTEST && !self.0.contains(text) {
            self.0.insert(text.to_owned());
        }
    }

    /// Hides them in all texts of a value.
    pub(crate) fn scrub(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.scrub(value)),
            Value::String(text) if !self.0.is_empty() => *text = self.scrubbed(text),
            _ => {}
        }
    }

    /// Also where a program quoted them: in what its escapes mean, and those in that.
    fn scrubbed(&self, text: &str) -> String {
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
        for (at, _) in read.text.char_indices() {
            if let Some(secret) = self.first_of(&read.text[at..]) {
                let (start, end) = read.place(at, at + secret.len());
                found.push((start, end, secret.chars().count()));
            }
        }
    }

    /// The longest of them that a text begins with.
    fn first_of(&self, text: &str) -> Option<&str> {
        let mut begins = text;
        while begins.len() >= SHORTEST {
            let last = self.0.range::<str, _>((Unbounded, Included(begins))).next_back()?;
            if begins.starts_with(last.as_str()) {
                return Some(last);
            }
            // One that the text begins with comes before this one, so this one begins with it, too.
            let alike = begins.chars().zip(last.chars()).take_while(|(one, other)| one == other);
            begins = &begins[..alike.map(|(one, _)| one.len_utf8()).sum::<usize>()];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Redaction, *};
    use serde_json::json;

    #[test]
    fn hidden_values_are_hidden_in_errors_too() {
        let mut secrets = Secrets::default();
        let mut args = json!({"token": {"a": "hunter2", "b": "hunter2-long", "c": "x"}});
        Redaction::default().hide("k", &mut args, &mut secrets);
        let mut errors = json!([{"error": "401 for hunter2-long, then hunter2 at x"}]);
        secrets.scrub(&mut errors);
        assert_eq!(errors[0]["error"], "401 for ‹12 characters hidden›, then ‹7 characters hidden› at x");
    }

    #[test]
    fn all_of_many_values_are_hidden_however_they_are_quoted() {
        let texts = (0..1_000).map(|n| format!("user-{n}@example.com"));
        let texts: Vec<String> =
            texts.chain(["user-1", "a \"b\"\nc", "pässwörd😀", "ab/cd+ef=="].map(str::to_owned)).collect();
        let mut secrets = Secrets::default();
        Redaction::default().hide("k", &mut json!({ "token": texts }), &mut secrets);
        for text in texts.iter().rev().step_by(25).chain(texts.iter().rev().take(4)) {
            let quoted = json!({ "to": text }).to_string();
            let twice = json!(quoted).to_string();
            // As Python and PHP write JSON.
            let ascii = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            let slashes = text.replace('/', "\\/");
            let length = text.chars().count();
            for error in [format!("550 for {text}: ä"), format!("{text:?}"), quoted, twice, ascii, slashes] {
                let mut shown = json!(error);
                secrets.scrub(&mut shown);
                let shown = shown.as_str().unwrap();
                assert!(shown.contains(&format!("‹{length} characters hidden›")), "{error}: {shown}");
            }
        }
        let mut meet = Secrets::default();
        Redaction::default().hide("k", &mut json!({ "token": ["abcd", "cdef"] }), &mut meet);
        let mut text = json!("abcdef g");
        meet.scrub(&mut text);
        assert_eq!(text, "‹4 characters hidden› g");
        let mut other = json!("user-1 is no user-10@example.co, ends in user");
        secrets.scrub(&mut other);
        assert_eq!(other, "‹6 characters hidden› is no ‹6 characters hidden›0@example.co, ends in user");
    }
}
