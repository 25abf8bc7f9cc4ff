use crate::{Error, ErrorKind, JobState, Limits, Result, Settings, millis};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, time::Duration};

/// How long, and how many, jobs of one queue are kept that ended in one way. What a rule leaves open is what the rule for
/// every queue says, and what that leaves open is what the [settings](Settings) say; these limit no numbers.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{JobState, RetentionRule};
///
/// let rule = RetentionRule::of("mail", JobState::Discarded).with_age(Duration::from_secs(7 * 86_400)).with_count(1_000);
/// rule.check().unwrap();
/// assert!(RetentionRule::of("mail", JobState::Running).check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RetentionRule {
    /// Which queue; `None`: every queue that has no rule of its own for this outcome.
    #[serde(default)]
    pub queue: Option<String>,
    /// How the jobs ended: completed, cancelled or discarded.
    pub outcome: JobState,
    /// How long they are kept; `None`: what the next more general rule says. Completed jobs are kept for the longest time that any rule
    /// and [`Settings::retention`] say, because they are removed together.
    #[serde(default, rename = "age_ms", with = "millis::option")]
    pub age: Option<Duration>,
    /// How many are kept, those that ended last; `None`: what the next more general rule says. Not for completed jobs.
    #[serde(default)]
    pub count: Option<u64>,
}

impl RetentionRule {
    /// The most rules that a store keeps.
    pub const MAX_RULES: usize = 1_000;
    /// The largest [`Self::count`]: housekeeping looks at an index entry for each job that it keeps by count.
    pub const MAX_COUNT: u64 = 1_000_000;
    /// What stands for every queue where a rule is written as text. No queue can have this name.
    pub const EVERY_QUEUE: &'static str = "*";
    /// How jobs end.
    pub const OUTCOMES: [JobState; 3] = [JobState::Completed, JobState::Cancelled, JobState::Discarded];

    /// A rule for one queue that says nothing yet; kept like this it removes the rule that was there.
    pub fn of(queue: impl Into<String>, outcome: JobState) -> Self {
        Self { queue: Some(queue.into()), outcome, age: None, count: None }
    }

    /// A rule for every queue that has none of its own.
    pub const fn of_every_queue(outcome: JobState) -> Self {
        Self { queue: None, outcome, age: None, count: None }
    }

    /// With another [`Self::age`].
    #[must_use]
    pub const fn with_age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }

    /// With another [`Self::count`].
    #[must_use]
    pub const fn with_count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Whether it says nothing, which removes the rule of this queue and outcome.
    pub const fn is_empty(&self) -> bool {
        self.age.is_none() && self.count.is_none()
    }

    /// The queue as text: [`Self::EVERY_QUEUE`] for every queue.
    pub fn queue_name(&self) -> &str {
        self.queue.as_deref().unwrap_or(Self::EVERY_QUEUE)
    }

    /// The queue that a text names.
    pub fn queue_of(name: &str) -> Option<String> {
        (name != Self::EVERY_QUEUE).then(|| name.to_owned())
    }

    /// Checks the values; a store calls this before it keeps them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value; [`ErrorKind::InvalidName`] for what is no queue's name.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if let Some(queue) = &self.queue {
            Limits::check_queue_name(queue)?;
        }
        if !Self::OUTCOMES.contains(&self.outcome) {
            let known = Self::OUTCOMES.map(JobState::as_str).join(", ");
            return refuse(format!(
                "jobs do not end as {}; the outcome of a retention rule is one of {known}",
                self.outcome
            ));
        }
        match (self.age, self.count) {
            (Some(age), _) if age > Settings::LONGEST => {
                refuse(format!("the age of a retention rule must be at most 100 years, got {age:?}"))
            }
            (_, Some(_)) if self.outcome == JobState::Completed => refuse(
                "completed jobs are removed together, so they cannot be kept by count; give an age, or none"
                    .to_owned(),
            ),
            (_, Some(count)) if count > Self::MAX_COUNT => refuse(format!(
                "the count of a retention rule must be at most {}, got {count}",
                Self::MAX_COUNT
            )),
            _ => Ok(()),
        }
    }

    /// Checks rules that are to be kept together.
    ///
    /// # Errors
    /// What [`Self::check`] refuses; [`ErrorKind::InvalidOption`] for two rules of one queue and outcome, or too many.
    pub fn check_all(rules: &[Self]) -> Result<()> {
        rules.iter().try_for_each(Self::check)?;
        let mut seen = HashSet::new();
        for rule in rules {
            if !seen.insert((&rule.queue, rule.outcome)) {
                let message = format!(
                    "two retention rules for queue {:?} and {}; give one",
                    rule.queue_name(),
                    rule.outcome
                );
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        }
        if rules.len() > Self::MAX_RULES {
            return Err(Self::too_many(rules.len()));
        }
        Ok(())
    }

    /// Puts rules in the order in which stores list them: those of every queue first, then by queue and outcome.
    pub fn sort(rules: &mut [Self]) {
        rules.sort_by(|a, b| (&a.queue, a.outcome).cmp(&(&b.queue, b.outcome)));
    }

    /// The error of a store that would have so many rules.
    pub fn too_many(count: usize) -> Error {
        let message =
            format!("a store keeps at most {} retention rules, these would be {count}", Self::MAX_RULES);
        Error::new(ErrorKind::InvalidOption, format!("{message}; use rules for every queue instead"))
    }
}

/// What holds for one queue and outcome, by all rules and the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long its jobs are kept.
    pub age: Duration,
    /// How many; `None`: any number.
    pub count: Option<u64>,
}

impl Retention {
    /// What these rules and settings say of a queue's jobs that ended so.
    pub fn of(rules: &[RetentionRule], settings: &Settings, queue: &str, outcome: JobState) -> Self {
        if outcome == JobState::Completed {
            return Self { age: Self::of_completed(rules, settings), count: None };
        }
        let find = |name| rules.iter().find(|rule| rule.outcome == outcome && rule.queue.as_deref() == name);
        let (own, general) = (find(Some(queue)), find(None));
        Self {
            age: own
                .and_then(|rule| rule.age)
                .or(general.and_then(|rule| rule.age))
                .unwrap_or(settings.dead_retention),
            count: own.and_then(|rule| rule.count).or(general.and_then(|rule| rule.count)),
        }
    }

    /// How long completed jobs are kept: the longest that is said of any queue.
    pub fn of_completed(rules: &[RetentionRule], settings: &Settings) -> Duration {
        let ages =
            rules.iter().filter(|rule| rule.outcome == JobState::Completed).filter_map(|rule| rule.age);
        ages.fold(settings.retention, Duration::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn nonsense_is_refused_by_name() {
        let discarded = || RetentionRule::of("mail", JobState::Discarded);
        RetentionRule::check_all(&[
            discarded().with_count(0),
            RetentionRule::of_every_queue(JobState::Discarded),
        ])
        .unwrap();
        for (rules, says) in [
            (vec![discarded().with_age(Duration::MAX)], "100 years"),
            (vec![discarded().with_count(u64::MAX)], "at most 1000000, got 18446744073709551615"),
            (vec![RetentionRule::of("mail", JobState::Running)], "running; the outcome"),
            (vec![RetentionRule::of("mail", JobState::Completed).with_count(1)], "by count"),
            (vec![RetentionRule::of("no name", JobState::Completed)], "no name"),
            (vec![RetentionRule::of("*", JobState::Completed)], "*"),
            (vec![discarded(), discarded()], "two retention rules for queue \"mail\""),
        ] {
            let error = RetentionRule::check_all(&rules).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn the_more_special_rule_counts_for_each_value() {
        let settings = Settings::DEFAULT;
        let rules = [
            RetentionRule::of_every_queue(JobState::Discarded).with_age(HOUR).with_count(9),
            RetentionRule::of("mail", JobState::Discarded).with_count(3),
        ];
        let of = |queue, outcome| Retention::of(&rules, &settings, queue, outcome);
        assert_eq!(of("mail", JobState::Discarded), Retention { age: HOUR, count: Some(3) });
        assert_eq!(of("other", JobState::Discarded), Retention { age: HOUR, count: Some(9) });
        assert_eq!(of("mail", JobState::Cancelled), Retention { age: settings.dead_retention, count: None });
    }

    #[test]
    fn completed_jobs_are_kept_for_the_longest_time() {
        let settings = Settings::DEFAULT.with_retention(HOUR);
        let of = |age| {
            Retention::of_completed(&[RetentionRule::of("a", JobState::Completed).with_age(age)], &settings)
        };
        assert_eq!((of(2 * HOUR), of(HOUR / 2)), (2 * HOUR, HOUR));
    }
}
