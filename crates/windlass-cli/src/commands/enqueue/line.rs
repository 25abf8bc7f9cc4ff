//! One line of `enqueue --many`.

use crate::failure::{Failure, Outcome};
use serde::de::IgnoredAny;
use windlass::{Limits, NewJob, UniqueKey};
use windlass_bridge::{JobSpec, in_words};

/// The job of a line.
pub(super) fn parse(line: &[u8]) -> Outcome<NewJob> {
    let wrong = |error: serde_json::Error| {
        // Every line is one value on one line, so serde's own "line 1" would only mislead.
        let text = error.to_string();
        let text = match text.rsplit_once(" at line 1 column ") {
            Some((said, column)) => {
                let is_json = serde_json::from_slice::<IgnoredAny>(line).is_ok();
                let said = if is_json { in_words(said) } else { said.to_owned() };
                format!("{said} at column {column}")
            }
            None => text,
        };
        Failure::usage("invalid_input", text)
    };
    let odd = |text: &str| Err(Failure::usage("invalid_input", text));
    match line.trim_ascii_start() {
        // The fields of a job could be read from an array as well, by their order.
        [b'[', ..] => {
            return odd(
                "a line is the JSON object of one job, not an array; `jq -c '.[]'` writes each on a line of its own",
            );
        }
        [0xef, 0xbb, 0xbf, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return odd("begins with a byte order mark; write the file as UTF-8 without one");
        }
        _ => {}
    }
    let job = serde_json::from_slice::<JobSpec<'_>>(line).map_err(wrong)?.job()?;
    // Checked here as well, so that the error names the line and not the batch.
    Limits::default().check(std::slice::from_ref(&job))?;
    UniqueKey::of(&job)?;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use windlass::{OnConflict, Unique, When};

    #[test]
    fn a_line_says_all_about_its_job() {
        let job =
            parse(br#"{"kind":"a","args":[1],"queue":"q","priority":-3,"max_attempts":2,"delay_ms":5}"#)
                .unwrap();
        assert_eq!((job.kind(), job.args().as_str(), job.queue()), ("a", "[1]", "q"));
        assert_eq!((job.priority(), job.max_attempts()), (-3, 2));
        assert_eq!(job.when(), When::After(Duration::from_millis(5)));
        assert_eq!(parse(br#"{"kind":"a"}"#).unwrap().args().as_str(), "{}");
        let keyed = parse(br#"{"kind":"a","key":"acme"}"#).unwrap();
        assert_eq!(keyed.attributes().and_then(|attributes| attributes.key.as_deref()), Some("acme"));
    }

    #[test]
    fn a_line_says_how_its_job_is_unique() {
        let second = Duration::from_secs(1);
        for (text, unique) in [
            (r#""unique_key":"a""#, Unique::by_key("a")),
            (r#""unique_key":"a","expires_in_ms":5000"#, Unique::by_key("a")),
            (
                r#""unique_args":true,"unique_in":"queue","unique_until":"started""#,
                Unique::by_args().in_queue().until_started(),
            ),
            (
                r#""unique_fields":["x"],"unique_for_ms":1000,"on_conflict":"extend","unique_in":"kind""#,
                Unique::by_fields(["x"]).for_window(second).on_conflict(OnConflict::Extend),
            ),
            (
                r#""unique_key":"a","unique_until":"finished","on_conflict":"replace","max_wait_ms":1000"#,
                Unique::by_key("a").on_conflict(OnConflict::Replace { max_wait: Some(second) }),
            ),
        ] {
            let line = format!(r#"{{"kind":"a","args":{{"x":1}},{text}}}"#);
            assert_eq!(parse(line.as_bytes()).unwrap().unique(), Some(&unique), "{line}");
        }
        assert_eq!(parse(br#"{"kind":"a","unique_args":false}"#).unwrap().unique(), None);
    }

    #[test]
    fn a_bad_line_is_refused() {
        for line in [
            r#"{"args":1}"#,
            r#"{"kind":"a","colour":1}"#,
            r#"{"kind":"a b"}"#,
            r#"{"kind":"a","priority":40000}"#,
            r#"{"kind":"a","delay_ms":1,"scheduled_at":"2031-01-01T00:00:00Z"}"#,
            r#"{"kind":"a","expires_in_ms":1,"expires_at":"2031-01-01T00:00:00Z"}"#,
            r#"{"kind":"a","timeout_ms":0}"#,
            r#"{"kind":"a","timeout_ms":-1}"#,
            r#"{"kind":"a","expires_in_ms":5,"delay_ms":5}"#,
            r#"{"kind":"a","retry_policy":{"jitter":2}}"#,
            r#"{"kind":"a","tags":[""]}"#,
            r#"{"kind":"a","key":""}"#,
            r#"{"kind":"a","cost":0}"#,
            r#"{"kind":"a","cost":1000001}"#,
            r#"{"kind":"a","args":"\u0000"}"#,
            r#"{"kind":"a","unique_key":""}"#,
            r#"{"kind":"a","unique_key":"a","unique_args":true}"#,
            r#"{"kind":"a","unique_fields":["b"]}"#,
            r#"{"kind":"a","unique_fields":"b","args":{"b":1}}"#,
            r#"{"kind":"a","unique_args":true,"args":9007199254740993}"#,
            r#"{"kind":"a","unique_in":"queue"}"#,
            r#"{"kind":"a","on_conflict":"replace"}"#,
            r#"{"kind":"a","unique_key":"a","on_conflict":"drop"}"#,
            r#"{"kind":"a","unique_key":"a","on_conflict":"extend"}"#,
            r#"{"kind":"a","unique_key":"a","max_wait_ms":5}"#,
            r#"{"kind":"a","unique_key":"a","unique_until":"done"}"#,
            r#"{"kind":"a","unique_key":"a","unique_until":"started","unique_for_ms":5}"#,
            r#"{"kind":"a","unique_key":"a","unique_for_ms":0}"#,
            "[]",
            "nonsense",
            "\"\u{feff}\"",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn a_line_is_refused_in_words_that_are_not_of_rust() {
        let said = format!("{:?}", parse(br#"{"kind":"a","max_attempts":100000}"#).unwrap_err());
        let expected =
            "invalid value: integer `100000`, expected a whole number of at most 65535 at column 33";
        assert!(said.contains(expected), "{said}");
        for (text, expected) in
            [("7", "expected one of the words that may stand here"), ("seven", "expected value")]
        {
            let line = format!(r#"{{"kind":"a","unique_key":"k","on_conflict":{text}}}"#);
            let said = format!("{:?}", parse(line.as_bytes()).unwrap_err());
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
