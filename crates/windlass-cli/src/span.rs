use std::time::Duration;

/// The longest span that an option may name: 100 years, as for a job's delay.
const MAX_SECONDS: u64 = windlass::Limits::MAX_DELAY_SECONDS;

/// Reads a span of time as people write it: `250ms`, `5s`, `1h30m`, `2d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration {text:?}; write it like 250ms, 5s, 1h30m or 2d");
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let part = unit(&rest[..letters], count).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    match text {
        "" => Err(wrong()),
        _ if total.as_secs() > MAX_SECONDS => Err(format!("duration {text:?} is longer than 100 years")),
        _ => Ok(total),
    }
}

fn unit(name: &str, count: u64) -> Option<Duration> {
    let seconds = |each: u64| count.checked_mul(each).map(Duration::from_secs);
    match name {
        "us" => Some(Duration::from_micros(count)),
        "ms" => Some(Duration::from_millis(count)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3_600),
        "d" => seconds(86_400),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_written() {
        let expected = [("250ms", 250), ("5s", 5_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0s", 0)];
        for (text, millis) in expected {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "5",
            "m",
            "-5s",
            "5x",
            "5 s",
            "1.5h",
            "99999999999999999999s",
            "18446744073709551615d",
            "36601d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
