use super::Redaction;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is to be hidden, as it is written. What would hide nothing is refused: whoever wrote it relies on it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    hide: Vec<String>,
    allow: Vec<String>,
    kinds: BTreeMap<String, Vec<String>>,
}

impl TryFrom<Written> for Redaction {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { hide, allow, kinds } = written;
        if let Some(part) = hide.iter().find(|part| part.is_empty() || part.contains('*')) {
            return Err(format!(
                "hide has {part:?}; write parts of names, which are looked for anywhere in them, without *"
            ));
        }
        if let Some(name) = allow.iter().find(|name| name.is_empty() || name.contains('*')) {
            return Err(format!("allow has {name:?}; write whole names, without *"));
        }
        for (kind, keys) in &kinds {
            if kind.is_empty() || kind.strip_suffix('*').unwrap_or(kind).contains('*') {
                return Err(format!(
                    "kinds has {kind:?}; write a kind, or what kinds begin with and one * at its end"
                ));
            }
            if let Some(key) = keys.iter().find(|key| key.is_empty() || key.contains('*') && *key != "*") {
                return Err(format!(
                    "of kind {kind:?} {key:?} is to be hidden; write whole names of keys, or * alone for all of the args"
                ));
            }
        }
        Ok(Self { hide, allow, kinds })
    }
}

#[cfg(test)]
mod tests {
    use crate::redact::Redaction;
    use serde_json::json;

    #[test]
    fn what_would_hide_nothing_is_refused() {
        for (written, says) in [
            (json!({"hide": ["*birth*"]}), "*birth*"),
            (json!({"hide": [""]}), "hide has \"\""),
            (json!({"allow": ["page_*"]}), "page_*"),
            (json!({"kinds": {"*.send": ["to"]}}), "*.send"),
            (json!({"kinds": {"mail.*.eu": ["to"]}}), "mail.*.eu"),
            (json!({"kinds": {"mail.**": ["to"]}}), "mail.**"),
            (json!({"kinds": {"": ["to"]}}), "kinds has \"\""),
            (json!({"kinds": {"mail": ["to", "t*"]}}), "\"t*\" is to be hidden"),
            (json!({"kinds": {"mail": [""]}}), "\"\" is to be hidden"),
            (json!({"kind": {}}), "unknown field `kind`"),
        ] {
            let error = serde_json::from_value::<Redaction>(written.clone()).unwrap_err().to_string();
            assert!(error.contains(says), "{written}: {error}");
        }
        let fine = json!({"hide": ["birth"], "allow": ["page_token"], "kinds": {"mail.*": ["to"], "*": ["a"], "pay": ["*"]}});
        serde_json::from_value::<Redaction>(fine).unwrap();
        serde_json::from_value::<Redaction>(json!({})).unwrap();
    }
}
