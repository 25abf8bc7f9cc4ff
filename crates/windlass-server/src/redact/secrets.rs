use super::hidden;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ops::Bound::{Included, Unbounded},
};

/// Shorter texts are hidden where they stand, and not looked for elsewhere: they would be found everywhere.
const SHORTEST: usize = 4;

/// Values that were hidden, to hide them in texts too. All of them, however many: they are no more than one job has.
#[derive(Default)]
pub(crate) struct Secrets(BTreeSet<String>);

impl Secrets {
    pub(super) fn note(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.note(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.note(value)),
            Value::String(text) if text.len() >= SHORTEST => {
                self.push(text);
                // As it stands where a program quotes it: a quote or the end of a line in it is escaped.
                let quoted = value.to_string();
                self.push(&quoted[1..quoted.len() - 1]);
            }
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

    fn scrubbed(&self, text: &str) -> String {
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(next) = rest.chars().next() {
            rest = match self.first_of(rest) {
                Some(secret) => {
                    shown.push_str(&hidden(secret.chars().count()));
                    &rest[secret.len()..]
                }
                None => {
                    shown.push(next);
                    &rest[next.len_utf8()..]
                }
            };
        }
        shown
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
        let texts: Vec<String> = texts.chain(["user-1".to_owned(), "a \"b\"\nc".to_owned()]).collect();
        let mut secrets = Secrets::default();
        Redaction::default().hide("k", &mut json!({ "token": texts }), &mut secrets);
        for text in &texts {
            for error in
                [format!("550 for {text}: ä"), format!("{text:?}"), json!({ "to": text }).to_string()]
            {
                let mut shown = json!(error);
                secrets.scrub(&mut shown);
                let shown = shown.as_str().unwrap();
                assert!(!shown.contains(text.as_str()) && shown.contains(" characters hidden›"), "{shown}");
            }
        }
        let mut other = json!("user-1 is no user-10@example.co, ends in user");
        secrets.scrub(&mut other);
        assert_eq!(other, "‹6 characters hidden› is no ‹6 characters hidden›0@example.co, ends in user");
    }
}
