//! Durations as people write them.

use std::time::Duration;

/// The longest duration that an option may name: 100 years, as for a job's delay.
const MAX_SECONDS: u64 = windlass::Limits::MAX_DELAY_SECONDS;

/// Reads a duration: `250ms`, `5s`, `1h30m`, `2d`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| {
        format!("invalid duration {text:?}: {error}; write it like 250ms, 5s, 1h30m or 2d")
    })?;
    match duration.as_secs() {
        ..=MAX_SECONDS => Ok(duration),
        _ => Err(format!("duration {text:?} is longer than 100 years")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_written() {
        let expected =
            [("250ms", 250), ("5s", 5_000), ("1h30m", 5_400_000), ("30m1h", 5_400_000), ("2d", 172_800_000)];
        for (text, millis) in expected {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse("15us"), Ok(Duration::from_micros(15)));
        assert_eq!(parse("36600d"), Ok(Duration::from_secs(MAX_SECONDS)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "5", "m", "-5s", "5x", "99999999999999999999s", "18446744073709551615d", "36601d", "1s\u{0}"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_texts_of_every_language_are_read() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../../conformance/vectors/durations.json")).unwrap();
        for vector in vectors["texts"].as_array().unwrap() {
            let millis = Duration::from_millis(vector["ms"].as_u64().unwrap());
            assert_eq!(parse(vector["text"].as_str().unwrap()), Ok(millis), "{vector}");
        }
        for text in vectors["refused"].as_array().unwrap() {
            assert!(parse(text.as_str().unwrap()).is_err(), "{text}");
        }
    }
}
