//! Times as people write them.

use jiff::Timestamp;

/// Reads a time: `2031-01-31T08:00:00Z`, or with an offset in the place of the Z.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is no time; write it like 2031-01-31T08:00:00Z, or with the offset of your zone, 2031-01-31T08:00:00+01:00"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_written() {
        for text in ["2031-01-31T08:00:00Z", "2031-01-31T09:00:00+01:00"] {
            assert_eq!(parse(text).unwrap().as_second(), 1_927_612_800, "{text}");
        }
        for text in
            ["", "tomorrow", "2031-01-31", "2031-01-31T08:00:00", "2031-02-30T08:00:00Z", "1927699200"]
        {
            assert!(parse(text).unwrap_err().contains("2031-01-31T08:00:00+01:00"), "{text}");
        }
    }
}
