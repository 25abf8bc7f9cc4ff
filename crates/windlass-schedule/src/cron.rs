use crate::{cron_fields::FIELDS, invalid};
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use windlass_core::{Result, Schedule};

/// How many jumps of the clock one search looks across: more than a century of them.
const MOST_JUMPS: usize = 300;

/// What stands for five fields.
const ALIASES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A cron expression.
#[derive(Clone, Debug)]
pub(crate) struct CronRule {
    cron: Cron,
    /// Whether the field of the hours names them, so that each time of day ticks once a day.
    names_hours: bool,
}

impl CronRule {
    /// Reads an expression.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let known = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(text.trim()));
        let whole = known.map_or(text, |(_, fields)| fields);
        if whole.len() > Schedule::MAX_CRON_BYTES {
            let most = Schedule::MAX_CRON_BYTES;
            return Err(invalid(format!("the expression is {} bytes, the limit is {most}", whole.len())));
        }
        if whole.trim_start().starts_with('@') {
            let known = ALIASES.map(|(alias, _)| alias).join(", ");
            return Err(invalid(format!("unknown alias {whole:?}; known are {known}")));
        }
        let mut fields: Vec<&str> = whole.split_ascii_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        if fields.len() != FIELDS.len() {
            return Err(invalid(format!(
                "{whole:?} has {} fields; write five (minute hour day-of-month month day-of-week), six with seconds first, \
                 an alias such as @daily, or an interval such as \"every 90s\"",
                fields.len()
            )));
        }
        for (field, text) in FIELDS.iter().zip(&fields) {
            field.check(text)?;
        }
        let for_parser: Vec<_> =
            FIELDS.iter().zip(&fields).map(|(field, text)| field.for_parser(text)).collect();
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let cron = parser
            .parse(&for_parser.join(" "))
            .map_err(|cause| invalid(format!("{whole:?} is not an expression: {cause}")))?;
        let rule = Self { cron, names_hours: !fields[2].contains(['*', '/']) };
        // Nothing is rarer than a 29th of February on one day of the week: once in 40 years at worst.
        if rule.next_on_wall(DateTime::constant(2000, 1, 1, 0, 0, 0, 0), true).is_none() {
            return Err(invalid(format!("{whole:?} never ticks: no month has such a day")));
        }
        Ok(rule)
    }

    /// The next time on the wall that matches.
    fn next_on_wall(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        self.cron.find_next_occurrence(&from, inclusive).ok()
    }

    /// The first tick after this instant.
    pub(crate) fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.names_hours { self.next_named(after, zone) } else { self.next_shown(after, zone) }
    }

    /// Each matching time of the wall ticks once: the first time that it is shown, or when the clock jumps over it.
    fn next_named(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut wall = zone.to_datetime(after);
        loop {
            wall = self.next_on_wall(wall, false)?;
            let tick = first_shown(wall, zone)?;
            // Before: in the second pass of an hour that comes twice.
            if tick > after {
                return Some(tick);
            }
        }
    }

    /// Each matching time ticks whenever it is shown. Between two jumps the clock only runs on.
    fn next_shown(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (mut from, mut inclusive) = (after, false);
        for _ in 0..MOST_JUMPS {
            let offset = zone.to_offset(from);
            let jump = zone.following(from).next().map(|jump| jump.timestamp());
            let wall = self.next_on_wall(offset.to_datetime(from), inclusive)?;
            let tick = offset.to_timestamp(wall).ok()?;
            match jump {
                Some(jump) if tick >= jump => (from, inclusive) = (jump, true),
                _ => return Some(tick),
            }
        }
        None
    }
}

/// When the clock first shows this time, or jumps over it.
fn first_shown(wall: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let shown = zone.to_ambiguous_timestamp(wall);
    if !matches!(shown.offset(), jiff::tz::AmbiguousOffset::Gap { .. }) {
        return shown.earlier().ok();
    }
    // In a gap the earlier reading lies before the jump.
    let before = shown.earlier().ok()?;
    zone.following(before).next().map(|jump| jump.timestamp())
}
