//! What may stand in the fields of an expression, and what to say of one that may not.

use crate::invalid;
use windlass_core::Result;

/// One field.
pub(crate) struct Field {
    name: &'static str,
    least: u16,
    most: u16,
    names: &'static [&'static str],
    /// The number of the first name.
    first: u16,
    /// What else it may be, beside numbers, ranges, lists and steps.
    special: Special,
}

#[derive(PartialEq)]
enum Special {
    None,
    DayOfMonth,
    DayOfWeek,
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn plain(name: &'static str, most: u16) -> Field {
    Field { name, least: 0, most, names: &[], first: 0, special: Special::None }
}

/// In their order.
pub(crate) const FIELDS: [Field; 6] = [
    plain("second", 59),
    plain("minute", 59),
    plain("hour", 23),
    Field { name: "day of month", least: 1, most: 31, names: &[], first: 0, special: Special::DayOfMonth },
    Field { name: "month", least: 1, most: 12, names: MONTHS, first: 1, special: Special::None },
    Field { name: "day of week", least: 0, most: 7, names: DAYS, first: 0, special: Special::DayOfWeek },
];

impl Field {
    /// Checks the text of the field.
    ///
    /// # Errors
    /// Which field, which part of it, and what is allowed.
    pub(crate) fn check(&self, text: &str) -> Result<()> {
        for part in text.split(',') {
            let whole = part.len() == text.len();
            if let Err(why) = self.check_part(part, whole) {
                let (name, allowed) = (self.name, self.allowed());
                return Err(invalid(format!(
                    "the {name} field {text:?} is wrong at {part:?}: {why}; allowed are {allowed}"
                )));
            }
        }
        let has = |wanted: &str| text.split(',').any(|part| part.eq_ignore_ascii_case(wanted));
        if self.special == Special::DayOfMonth && has("L") && has("LW") {
            let (name, why) = (self.name, "L and LW do not go together");
            return Err(invalid(format!("the {name} field {text:?} is wrong: {why}; make two schedules")));
        }
        Ok(())
    }

    fn allowed(&self) -> String {
        let Self { least, most, .. } = self;
        let names = match self.names {
            [first, .., last] => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        let special = match self.special {
            Special::None => "",
            Special::DayOfMonth => ", L (last day), LW (last weekday), 15W (weekday nearest to the 15th)",
            Special::DayOfWeek => ", 5L (last Friday), 5#2 (second Friday)",
        };
        format!("{least} to {most}{names}, *, lists (a,b), ranges (a-b), steps (*/n, a-b/n){special}")
    }

    /// The text as the parser is to have it. To it 0 is Sunday at the end of a range, too, so that 1-0 would run backwards.
    pub(crate) fn for_parser(&self, text: &str) -> String {
        let part = |part: &str| {
            let (range, step) = part.split_at(part.find('/').unwrap_or(part.len()));
            match range.split_once('-') {
                Some((from, to)) if self.is_sunday(to) && !self.is_sunday(from) => format!("{from}-7{step}"),
                _ => part.to_owned(),
            }
        };
        text.split(',').map(part).collect::<Vec<_>>().join(",")
    }

    fn is_sunday(&self, text: &str) -> bool {
        self.special == Special::DayOfWeek && self.number(text) == Ok(0)
    }

    fn check_part(&self, part: &str, whole: bool) -> std::result::Result<(), String> {
        if part.is_empty() {
            return Err("a list has nothing between its commas".to_owned());
        }
        if let Some((of, step)) = part.split_once('/') {
            let range = match of {
                "*" => self.least..=self.most,
                _ => match self.range(of)? {
                    Some(range) => range,
                    None => return Err(self.steps_from(self.number(of)?, step)),
                },
            };
            let longest = range.end() - range.start();
            return match steps(step) {
                Some(step) if (1..=longest.max(1)).contains(&step) => Ok(()),
                _ => Err(format!("a step here must be 1 to {}", longest.max(1))),
            };
        }
        let is_any = part == "*" || part == "?" && self.special != Special::None;
        if is_any && !whole {
            return Err("it stands alone, not in a list".to_owned());
        }
        if is_any || self.is_special(part)? || self.range(part)?.is_some() {
            return Ok(());
        }
        self.number(part).map(drop)
    }

    /// What to write instead of a step from one number.
    fn steps_from(&self, from: u16, step: &str) -> String {
        let step = steps(step).unwrap_or(1);
        format!("a step needs a range to step through, as in */{step} or {from}-{}/{step}", self.most)
    }

    /// The range `a-b`; `None` when it is none.
    fn range(&self, text: &str) -> std::result::Result<Option<std::ops::RangeInclusive<u16>>, String> {
        let Some((from, to)) = text.split_once('-') else { return Ok(None) };
        let (from, mut to) = (self.number(from)?, self.number(to)?);
        if self.special == Special::DayOfWeek && to == 0 {
            to = 7; // MON-SUN
        }
        if from > to {
            return Err("a range must not run backwards; write it as a list of two".to_owned());
        }
        Ok(Some(from..=to))
    }

    fn number(&self, text: &str) -> std::result::Result<u16, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(index) = named.and_then(|index| u16::try_from(index).ok()) {
            return Ok(index + self.first);
        }
        let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse::<u16>() {
            Ok(number) if is_number && (self.least..=self.most).contains(&number) => Ok(number),
            Ok(number) if is_number => Err(format!("{number} is out of range")),
            _ => Err(format!("{:?} is not a value of this field", shorten(text))),
        }
    }

    fn is_special(&self, text: &str) -> std::result::Result<bool, String> {
        let is = |wanted: &str| text.eq_ignore_ascii_case(wanted);
        match self.special {
            Special::None => Ok(false),
            Special::DayOfMonth if is("L") || is("LW") => Ok(true),
            Special::DayOfMonth => match text.strip_suffix(['W', 'w']) {
                Some(day) => self.number(day).map(|_| true),
                None => Ok(false),
            },
            Special::DayOfWeek => match (text.strip_suffix(['L', 'l']), text.split_once('#')) {
                (Some(day), _) => self.number(day).map(|_| true),
                (None, Some((day, "1" | "2" | "3" | "4" | "5"))) => self.number(day).map(|_| true),
                (None, Some(_)) => Err("which one of the month must be #1 to #5".to_owned()),
                (None, None) => Ok(false),
            },
        }
    }
}

/// The number of a step, which has no sign before it.
fn steps(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|steps| is_number && *steps < 10_000)
}

fn shorten(text: &str) -> String {
    text.chars().take(20).collect()
}
