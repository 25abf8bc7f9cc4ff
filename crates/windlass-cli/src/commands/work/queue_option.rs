use std::str::FromStr;

/// A queue and its own concurrency: `NAME` or `NAME=CONCURRENCY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueOption {
    pub(super) name: String,
    pub(super) concurrency: Option<usize>,
}

impl FromStr for QueueOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, number)) = text.split_once('=') else {
            return Ok(Self { name: text.to_owned(), concurrency: None });
        };
        let concurrency = number
            .parse()
            .map_err(|_| format!("{number:?} is no concurrency; write NAME=CONCURRENCY, as in mail=10"))?;
        Ok(Self { name: name.to_owned(), concurrency: Some(concurrency) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_may_say_its_concurrency() {
        let parsed = |text: &str| text.parse::<QueueOption>().map(|queue| (queue.name, queue.concurrency));
        assert_eq!(parsed("mail"), Ok(("mail".to_owned(), None)));
        assert_eq!(parsed("mail=7"), Ok(("mail".to_owned(), Some(7))));
        assert!(parsed("mail=").is_err() && parsed("mail=x").is_err() && parsed("mail=-1").is_err());
    }
}
