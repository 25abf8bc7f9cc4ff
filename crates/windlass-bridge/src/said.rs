//! What foreign code says, as lines of the stdio protocol.

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use serde_json::{error::Category, value::RawValue};
use std::{collections::BTreeMap, fmt, time::Duration};
use windlass::{Args, Limits, Outcome, Progress};

/// What some languages write before the first text of a stream, or of each line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Below this every whole number has a floating-point number of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// So many characters of a ticket that is none.
const MOST_SHOWN: usize = 40;

/// One message of foreign code.
#[derive(Debug, PartialEq)]
pub enum Said {
    /// It is ready to take jobs.
    Ready {
        /// The version of the protocol that it speaks.
        protocol: u32,
        /// How many jobs it runs at once.
        concurrency: usize,
        /// The kinds that it can run; empty: any.
        kinds: Vec<String>,
        /// How long an attempt may take, of jobs of these kinds that do not say themselves.
        timeouts: BTreeMap<String, Duration>,
    },
    /// It wants no more jobs, and ends when it has none and its stdin is closed.
    Stop,
    /// Something about one job.
    OfJob(Answer),
}

/// What is said of a job that is lent.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// The job's.
    pub ticket: u64,
    /// What is said.
    pub say: Say,
}

/// What can be said of a job.
#[derive(Debug, PartialEq)]
pub enum Say {
    /// What became of it.
    Outcome(Outcome),
    /// How far it is.
    Progress(Progress),
    /// A line for its log.
    Log(String),
    /// A value for its next attempt. It is answered when the store has it.
    Checkpoint(Args),
    /// A question: what did an earlier attempt keep?
    LastCheckpoint,
}

/// A line that is no message.
#[derive(Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Something else that was written to the same place: a line that is no JSON object, or an object without a type.
    Other,
    /// A wrong message about a job.
    OfJob {
        /// The job's.
        ticket: u64,
        /// What it should have been.
        about: About,
        /// What is wrong.
        error: String,
    },
    /// A wrong message, and nobody knows about what.
    Message(String),
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The end of a job, or something unknown: nobody will answer for the job again.
    Outcome,
    /// Progress or a line for the log, which the job can do without.
    Report,
    /// A checkpoint: somebody waits for an answer.
    Checkpoint,
}

impl About {
    fn of(kind: &str) -> Self {
        match kind {
            "progress" | "log" => Self::Report,
            "checkpoint" | "last_checkpoint" => Self::Checkpoint,
            _ => Self::Outcome,
        }
    }
}

/// All fields of all messages: which of them there must be depends on the type.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    ticket: Option<Whole>,
    protocol: Option<Whole>,
    concurrency: Option<Whole>,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    timeouts_ms: BTreeMap<String, Whole>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    error: Option<String>,
    reason: Option<String>,
    after_ms: Option<Whole>,
    percent: Option<f64>,
    note: Option<String>,
    text: Option<String>,
}

/// A whole number, however it is written: where a language has no other numbers, 7 is 7.0 or 7e0.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole, E> {
        let is_whole = number.fract() == 0.0 && (0.0..EXACT).contains(&number);
        is_whole.then_some(Whole(number as u64)).ok_or_else(|| E::custom("no whole number"))
    }
}

/// What can be had of a line whose fields do not fit.
#[derive(Deserialize)]
struct Rest {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    ticket: Option<serde_json::Value>,
}

impl Said {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, and with which job that leaves unanswered.
    pub fn parse(line: &[u8]) -> Result<Self, Malformed> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(Malformed::Other);
        }
        let mut line: Line<'_> = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(error) => return Err(unfit(line, &error)),
        };
        let Some(kind) = line.kind.take() else { return Err(Malformed::Other) };
        if kind == "ready" {
            let Some(protocol) = line.protocol else {
                return Err(Malformed::Message("\"ready\" needs the field protocol: 1".to_owned()));
            };
            let concurrency = line.concurrency.map_or(1, |Whole(jobs)| jobs);
            let timeout = |(kind, Whole(ms))| (kind, Duration::from_millis(ms));
            let timeouts = line.timeouts_ms.into_iter().map(timeout);
            return Ok(Self::Ready {
                protocol: u32::try_from(protocol.0).unwrap_or(u32::MAX),
                concurrency: usize::try_from(concurrency).unwrap_or(usize::MAX),
                kinds: line.kinds,
                timeouts: timeouts.collect(),
            });
        }
        if kind == "stop" {
            return Ok(Self::Stop);
        }
        let Some(Whole(ticket)) = line.ticket else {
            return Err(Malformed::Message(format!("{kind:?} needs the field ticket")));
        };
        let say =
            say(&kind, line).map_err(|error| Malformed::OfJob { ticket, about: About::of(&kind), error })?;
        Ok(Self::OfJob(Answer { ticket, say }))
    }
}

fn say(kind: &str, line: Line<'_>) -> Result<Say, String> {
    let after = line.after_ms.map(|Whole(ms)| delay_of(ms)).transpose()?;
    let missing = |field: &str| format!("{kind:?} needs the field {field}");
    let json = |value: &RawValue| Args::parse(value.get()).map_err(|error| error.to_string());
    let said = match kind {
        "complete" => match line.result.filter(|result| result.get() != "null") {
            None => Say::Outcome(Outcome::Complete(None)),
            Some(result) => Say::Outcome(Outcome::Complete(Some(json(result)?))),
        },
        "retry" => Say::Outcome(Outcome::Retry { after, error: line.error.ok_or_else(|| missing("error"))? }),
        "snooze" => Say::Outcome(Outcome::Snooze(after.ok_or_else(|| missing("after_ms"))?)),
        "cancel" => Say::Outcome(Outcome::Cancel(line.reason.ok_or_else(|| missing("reason"))?)),
        "discard" => Say::Outcome(Outcome::Discard(line.error.ok_or_else(|| missing("error"))?)),
        "progress" => {
            let percent = line.percent.ok_or_else(|| missing("percent"))?;
            Say::Progress(Progress { percent, note: line.note })
        }
        "log" => Say::Log(line.text.ok_or_else(|| missing("text"))?),
        "checkpoint" => Say::Checkpoint(json(line.value.ok_or_else(|| missing("value"))?)?),
        "last_checkpoint" => Say::LastCheckpoint,
        unknown => {
            return Err(format!(
                "{unknown:?} is no type; it is one of ready, stop, complete, retry, snooze, cancel, discard, progress, log, checkpoint, last_checkpoint"
            ));
        }
    };
    Ok(said)
}

/// How long to wait until the job runs again, as programs say it.
///
/// # Errors
/// More than 100 years, as where a job is enqueued.
pub fn delay_of(after_ms: u64) -> Result<Duration, String> {
    let after = Duration::from_millis(after_ms);
    match after <= Limits::LONGEST {
        true => Ok(after),
        false => Err(format!(
            "after_ms must be at most {} (100 years), got {after_ms}",
            Limits::LONGEST.as_millis()
        )),
    }
}

/// What is wrong with a line. The error's own words may quote it, and these are kept with the job: args and results may be secret.
fn without_content(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        Category::Data => "a field with a value that does not fit",
        Category::Syntax | Category::Eof | Category::Io => "no JSON",
    };
    format!("{what}, at column {}", error.column())
}

fn unfit(line: &[u8], error: &serde_json::Error) -> Malformed {
    let error = without_content(error);
    match serde_json::from_slice(line) {
        Ok(Rest { kind: None, .. }) => Malformed::Other,
        Ok(Rest { kind: Some(kind), ticket: Some(ticket) }) => match Whole::deserialize(&ticket) {
            Ok(Whole(ticket)) => {
                Malformed::OfJob { ticket, about: About::of(kind.as_str().unwrap_or_default()), error }
            }
            Err(_) => Malformed::Message(no_ticket(&ticket)),
        },
        Ok(Rest { ticket: None, .. }) | Err(_) => Malformed::Message(error),
    }
}

/// A ticket is no secret, unlike what else a line says.
fn no_ticket(ticket: &serde_json::Value) -> String {
    let shown: String = ticket.to_string().chars().take(MOST_SHOWN).collect();
    format!("the ticket is {shown}, and has to be the number that the job came with, as in \"ticket\":7")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_job(line: &str) -> Say {
        match Said::parse(line.as_bytes()) {
            Ok(Said::OfJob(Answer { ticket: 7, say })) => say,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn malformed(line: &str) -> Malformed {
        Said::parse(line.as_bytes()).expect_err(line)
    }

    #[test]
    fn every_message_is_read() {
        let retry = |after, error: &str| Say::Outcome(Outcome::Retry { after, error: error.into() });
        let second = Duration::from_secs(1);
        for (line, say) in [
            (r#"{"type":"complete","ticket":7}"#, Say::Outcome(Outcome::Complete(None))),
            (r#"{"type":"complete","ticket":7,"result":null}"#, Say::Outcome(Outcome::Complete(None))),
            (r#"{"type":"complete","ticket":7,"result":[1]}"#, Say::Outcome(Outcome::complete_with(&[1]))),
            (r#"{"type":"retry","ticket":7,"error":"no"}"#, retry(None, "no")),
            (r#"{"type":"retry","ticket":7,"error":"no","after_ms":1000}"#, retry(Some(second), "no")),
            (r#"{"type":"snooze","ticket":7,"after_ms":1000}"#, Say::Outcome(Outcome::Snooze(second))),
            (r#"{"type":"cancel","ticket":7,"reason":"r"}"#, Say::Outcome(Outcome::Cancel("r".into()))),
            (r#"{"type":"discard","ticket":7,"error":"e"}"#, Say::Outcome(Outcome::Discard("e".into()))),
            (r#"{"type":"progress","ticket":7,"percent":4,"note":"n"}"#, Say::Progress((4.0, "n").into())),
            (r#"{"type":"log","ticket":7,"text":"t","of":"later"}"#, Say::Log("t".into())),
            (r#"{"type":"checkpoint","ticket":7,"value":[4]}"#, Say::Checkpoint(Args::parse("[4]").unwrap())),
            (r#"  {"ticket":7,"type":"last_checkpoint"}"#, Say::LastCheckpoint),
            ("\u{feff}{\"type\":\"complete\",\"ticket\":7}", Say::Outcome(Outcome::Complete(None))),
            (r#"{"type":"complete","ticket":7.0}"#, Say::Outcome(Outcome::Complete(None))),
            (r#"{"type":"snooze","ticket":70e-1,"after_ms":1e3}"#, Say::Outcome(Outcome::Snooze(second))),
        ] {
            assert_eq!(of_job(line), say, "{line}");
        }
        assert_eq!(Said::parse(br#"{"type":"stop"}"#), Ok(Said::Stop));
        let ready =
            br#"{"type":"ready","protocol":1.0,"concurrency":4.0,"kinds":["a"],"timeouts_ms":{"a":1e3}}"#;
        let timeouts = BTreeMap::from([("a".to_owned(), second)]);
        let ready_for = Said::Ready { protocol: 1, concurrency: 4, kinds: vec!["a".into()], timeouts };
        assert_eq!(Said::parse(ready), Ok(ready_for));
    }

    #[test]
    fn what_is_printed_by_mistake_is_no_message_and_a_wrong_message_says_whose() {
        for line in ["", "hello", "[1]", "7", r#"{"debug":1}"#, r#"{"ticket":7}"#, "\u{1b}[31m"] {
            assert_eq!(malformed(line), Malformed::Other, "{line}");
        }
        for (line, is_about, words) in [
            (r#"{"type":"done","ticket":7}"#, About::Outcome, "\"done\" is no type"),
            (r#"{"type":"checkpoint","ticket":7,"value":null}"#, About::Checkpoint, "needs the field value"),
            (r#"{"type":"progress","ticket":7,"percent":"4"}"#, About::Report, "does not fit"),
            (r#"{"type":"retry","ticket":7}"#, About::Outcome, "\"retry\" needs the field error"),
            (r#"{"type":"snooze","ticket":7,"after_ms":-1}"#, About::Outcome, "does not fit"),
            (r#"{"type":"snooze","ticket":7.0,"after_ms":1.5}"#, About::Outcome, "does not fit"),
            (
                r#"{"type":"snooze","ticket":7,"after_ms":3162240000001}"#,
                About::Outcome,
                "at most 3162240000000 (100 years), got 3162240000001",
            ),
            (r#"{"type":"complete","ticket":7,"result":"\ud800"}"#, About::Outcome, "surrogate"),
            (r#"{"type":["x"],"ticket":7}"#, About::Outcome, "does not fit"),
        ] {
            match malformed(line) {
                Malformed::OfJob { ticket: 7, about, error }
                    if about == is_about && error.contains(words) => {}
                other => panic!("{line}: {other:?}"),
            }
        }
        for (line, words) in [
            (r#"{"type":"complete"}"#, "needs the field ticket"),
            (r#"{"type":"complete","ticket":"7"}"#, "the ticket is \"7\", and has to be the number"),
            (r#"{"type":"complete","ticket":7.5}"#, "the ticket is 7.5,"),
            (r#"{"type":"complete","ticket":-7}"#, "the ticket is -7,"),
            (r#"{"type":"complete","ticket":9007199254740992.0}"#, "has to be the number"),
            (r#"{"type":"complete","ticket":[7]}"#, "the ticket is [7],"),
            (r#"{"type":"complete","ticket":7,"result":NaN}"#, "no JSON, at column 40"),
            (r#"{"type":"ready"}"#, "protocol"),
        ] {
            match malformed(line) {
                Malformed::Message(error) if error.contains(words) => {}
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
