//! Secrets in args do not leave the process: values are hidden by the names of their keys, and by the kind of the job.

mod cut;
mod escapes;
mod finder;
mod scrub;
mod secrets;
mod unescaped;
mod verbatim;
mod written;

pub(crate) use secrets::Secrets;
pub(crate) use verbatim::Verbatim;

use serde::Deserialize;
use std::collections::BTreeMap;

/// The longest text of which something is hidden, in bytes: what is larger is not shown.
pub(crate) const LONGEST_TEXT: usize = 64 << 10;
/// Parts of names that hide a value.
const HIDDEN_KEYS: [&str; 9] = ["pass", "secret", "token", "key", "auth", "cookie", "ssn", "iban", "card"];

/// Which values of args are hidden: those under a key whose name contains `pass`, `secret`, `token`, `key`, `auth`, `cookie`,
/// `ssn`, `iban` or `card`, and what is configured. Section `[redact]` of the auth file.
///
/// ```
/// use windlass_server::Redaction;
/// let redaction: Redaction = serde_json::from_str(
///     r#"{"hide": ["birth"], "allow": ["page_token"], "kinds": {"mail.*": ["to"], "payroll": ["*"]}}"#,
/// )?;
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "written::Written")]
pub struct Redaction {
    /// More parts of names.
    hide: Vec<String>,
    /// Whole names that are shown although a part of them would hide them.
    allow: Vec<String>,
    /// Keys that are hidden in jobs of a kind; the kind may end in `*`, the key `*` is the whole of the args.
    kinds: BTreeMap<String, Vec<String>>,
}

impl Redaction {
    /// Hides what is to be hidden in the args of a job of this kind; `true` where there was something.
    pub(crate) fn hide(&self, kind: &str, args: &mut Verbatim, secrets: &mut Secrets) -> bool {
        let keys = self.keys_of(Some(kind));
        if keys.contains(&"*") && !args.is_null() {
            hide(args, secrets);
            return true;
        }
        self.walk(args, &keys, secrets)
    }

    /// Whether who filters by these args could find out what is hidden of jobs of a kind (`None`: of any).
    pub(crate) fn would_tell(&self, kind: Option<&str>, mut wanted: Verbatim) -> bool {
        let keys = self.keys_of(kind);
        keys.contains(&"*") || self.walk(&mut wanted, &keys, &mut Secrets::default())
    }

    /// The keys that are hidden because of the kind; `None`: of any kind.
    fn keys_of(&self, kind: Option<&str>) -> Vec<&str> {
        let is_of = |pattern: &str, kind: &str| match pattern.strip_suffix('*') {
            Some(start) => kind.starts_with(start),
            None => *pattern == *kind,
        };
        let of_kind = |(pattern, _): &(&String, &Vec<String>)| kind.is_none_or(|kind| is_of(pattern, kind));
        self.kinds.iter().filter(of_kind).flat_map(|(_, keys)| keys.iter().map(String::as_str)).collect()
    }

    fn walk(&self, value: &mut Verbatim, of_kind: &[&str], secrets: &mut Secrets) -> bool {
        let mut any = false;
        match value {
            Verbatim::Array(items) => {
                for item in items {
                    any |= self.walk(item, of_kind, secrets);
                }
            }
            Verbatim::Object(fields) => {
                for (key, value) in fields {
                    if value.is_null() {
                        continue;
                    }
                    if of_kind.contains(&key.as_str()) || self.is_secret(key) {
                        hide(value, secrets);
                        any = true;
                    } else {
                        any |= self.walk(value, of_kind, secrets);
                    }
                }
            }
            Verbatim::Plain(_) | Verbatim::Text(_) => {}
        }
        any
    }

    fn is_secret(&self, key: &str) -> bool {
        let key = key.to_lowercase();
        let has = |part: &str| key.contains(&part.to_lowercase());
        (HIDDEN_KEYS.into_iter().any(has) || self.hide.iter().any(|part| has(part)))
            && !self.allow.iter().any(|name| name.to_lowercase() == key)
    }
}

fn hide(value: &mut Verbatim, secrets: &mut Secrets) {
    secrets.note(value);
    let characters = match &*value {
        Verbatim::Text(text) => text.chars().count(),
        other => serde_json::to_string(other).map_or(0, |json| json.chars().count()),
    };
    *value = Verbatim::Text(hidden(characters));
}

/// What stands for a hidden value.
pub(crate) fn hidden(characters: usize) -> String {
    format!("‹{characters} characters hidden›")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn hide(redaction: &Redaction, kind: &str, args: &Value) -> (Value, bool) {
        let mut args = Verbatim::of(args).unwrap();
        let any = redaction.hide(kind, &mut args, &mut Secrets::default());
        (json!(args), any)
    }

    #[test]
    fn values_are_hidden_by_the_names_of_their_keys_wherever_they_are() {
        let args = json!({"to": "a@example.com", "API_Key": "k-12", "deep": [{"password": 123_456, "n": 1}], "token": null});
        let (shown, any) = hide(&Redaction::default(), "mail", &args);
        let expected = json!({"to": "a@example.com", "API_Key": "‹4 characters hidden›",
            "deep": [{"password": "‹6 characters hidden›", "n": 1}], "token": null});
        assert_eq!((shown, any), (expected, true));
        let plain = json!([1, {"to": "x"}, "token"]);
        assert_eq!(hide(&Redaction::default(), "mail", &plain), (plain.clone(), false));
    }

    #[test]
    fn kinds_and_names_can_be_configured() {
        let redaction: Redaction = serde_json::from_value(
            json!({"hide": ["birth"], "allow": ["page_token"], "kinds": {"mail.*": ["to"], "payroll": ["*"]}}),
        )
        .unwrap();
        let args = json!({"to": "abc", "page_token": "p", "birthday": "1.1."});
        let shown = hide(&redaction, "mail.send", &args).0;
        assert_eq!(
            (&shown["to"], &shown["page_token"], &shown["birthday"]),
            (&json!("‹3 characters hidden›"), &json!("p"), &json!("‹4 characters hidden›"))
        );
        assert_eq!(hide(&redaction, "mail", &args).0["to"], "abc");
        assert_eq!(hide(&redaction, "payroll", &json!([1, 2])).0, json!("‹5 characters hidden›"));
    }

    #[test]
    fn who_filters_by_args_is_told_nothing_that_is_hidden() {
        let redaction: Redaction =
            serde_json::from_value(json!({"kinds": {"mail.*": ["to"], "payroll": ["*"]}})).unwrap();
        for (kind, wanted, tells) in [
            (Some("mail.send"), json!({"user": 7}), false),
            (Some("mail.send"), json!({"to": "a"}), true),
            (Some("mail.send"), json!({"deep": [{"api_token": "a"}]}), true),
            (Some("mail.send"), json!({"token": null}), false),
            (Some("other"), json!({"to": "a"}), false),
            (Some("payroll"), json!({"user": 7}), true),
            (None, json!({"user": 7}), true),
        ] {
            let read = Verbatim::of(&wanted).unwrap();
            assert_eq!(redaction.would_tell(kind, read), tells, "{kind:?} {wanted}");
        }
        let tells = |json: &str| Redaction::default().would_tell(None, Verbatim::read(json).unwrap());
        assert!(!tells(r#"{"user": 7}"#));
        assert!(tells(r#"{"token": "a", "token": null}"#), "a store may look for the first");
    }
}
