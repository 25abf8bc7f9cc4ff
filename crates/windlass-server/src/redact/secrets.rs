use super::{Verbatim, finder::Finder};
use std::{collections::BTreeSet, sync::OnceLock};

/// Shorter texts are hidden where they stand, and not looked for elsewhere: they would be found everywhere.
pub(super) const SHORTEST: usize = 4;

/// Values that were hidden, to hide them in texts too. All of them, however many: they are no more than one job has.
#[derive(Default)]
pub(crate) struct Secrets {
    pub(super) texts: BTreeSet<String>,
    /// The quotes in them.
    pub(super) quotes: BTreeSet<char>,
    /// Of these texts, once they were looked for.
    pub(super) finder: OnceLock<Finder>,
    /// Of these texts backwards, once their ends were.
    pub(super) backwards: OnceLock<Finder>,
}

impl Secrets {
    pub(super) fn note(&mut self, value: &Verbatim) {
        match value {
            Verbatim::Array(items) => items.iter().for_each(|item| self.note(item)),
            // Names are hidden with what they are the names of.
            Verbatim::Object(fields) => fields.iter().for_each(|(name, value)| {
                self.push(name);
                self.note(value);
            }),
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
            self.quotes.extend(text.chars().filter(|c| matches!(c, '\'' | '"')));
            self.finder.take();
            self.backwards.take();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::Redaction, *};
    use serde_json::json;

    /// What is hidden of these args.
    pub(in crate::redact) fn secrets_of(args: &str) -> Secrets {
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
    fn names_in_a_value_are_hidden_with_it() {
        let secrets =
            secrets_of(r#"{"token": {"hunter2-the-name": [{"another-name": 1}]}, "shown-name": 2}"#);
        let shown = secrets.scrubbed("no hunter2-the-name, another-name, shown-name, token");
        assert_eq!(shown, "no ‹16 characters hidden›, ‹12 characters hidden›, shown-name, token");
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
