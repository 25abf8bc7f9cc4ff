//! Retry policies as people write them.

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use windlass::RetryPolicy;

/// What [`RetryPolicy`] reads, but for what is misspelt: that takes what a newer program stored for something it knows.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Backoff {
    Exponential,
    Linear,
    Fixed,
}

/// Reads a policy, or none; an unknown backoff or field is an error that names those that are known.
pub(crate) fn written<'de, D: Deserializer<'de>>(json: D) -> Result<Option<RetryPolicy>, D::Error> {
    let Some(written) = Option::<Written>::deserialize(json)? else { return Ok(None) };
    serde_json::to_value(written).and_then(serde_json::from_value).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::job_spec::JobSpec;

    fn refusal(policy: &str) -> String {
        let json = format!(r#"{{"kind": "mail", "retry_policy": {policy}}}"#);
        serde_json::from_str::<JobSpec<'_>>(&json).err().expect("refused").to_string()
    }

    #[test]
    fn what_is_misspelt_is_refused() {
        assert!(
            refusal(r#"{"backoff": "quadratic"}"#)
                .starts_with("unknown variant `quadratic`, expected one of")
        );
        assert!(refusal(r#"{"bas_ms": 1000}"#).starts_with("unknown field `bas_ms`, expected one of"));
        assert!(refusal("7").starts_with("invalid type"));
    }
}
