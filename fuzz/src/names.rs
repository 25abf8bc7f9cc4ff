//! Names and keys: queue, kind and idempotency key follow their rules, and a refusal names the offender.

use windlass_core::{Args, ErrorKind, JobState, Limits, NewJob};

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "a",
    "Z",
    "9",
    "_",
    "-",
    ".",
    ":",
    "/",
    " ",
    "\t",
    "\n",
    "\0",
    "\u{7f}",
    "\u{9b}",
    "\u{a0}",
    "\u{2028}",
    "\u{3000}",
    "\u{200b}",
    "\u{202e}",
    "ä",
    "e\u{301}",
    "😀",
    "'",
    "\"",
    ";",
    "--",
    "\\",
    "%",
    "$1",
    "{schema}",
    "default",
    "mail.send",
    "running",
    "completed",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// Takes any text as each kind of name.
pub fn body(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let text = text.as_ref();
    let queue_fits = (1..=128).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.chars().all(|c| matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | ':' | '/'));
    let kind_fits =
        (1..=200).contains(&text.len()) && text.chars().all(|c| !c.is_control() && !c.is_whitespace());
    let args = || Args::parse("1").expect("args");
    check(Limits::check_queue_name(text), queue_fits, ErrorKind::InvalidName, "queue");
    let job = |kind: &str, queue: &str| NewJob::new(kind.to_owned(), args()).with_queue(queue.to_owned());
    let limits = Limits::default();
    check(limits.check(&[job("k", text)]), queue_fits, ErrorKind::InvalidName, "queue");
    check(limits.check(&[job(text, "q")]), kind_fits, ErrorKind::InvalidName, "kind");
    check(limits.check(&[job("k", "q"), job(text, "q")]), kind_fits, ErrorKind::InvalidName, "job 1 of 2");
    let key_fits = (1..=200).contains(&text.len()) && !text.contains('\0');
    check(Limits::check_idempotency_key(text), key_fits, ErrorKind::InvalidOption, "idempotency key");
    if let Ok(state) = text.parse::<JobState>() {
        assert_eq!(state.as_str(), text);
    }
    let stored = Limits::storable_error(text);
    assert!(!stored.contains('\0') && stored.chars().count() <= text.chars().count());
}

fn check(result: windlass_core::Result<()>, fits: bool, kind: ErrorKind, names: &str) {
    match result {
        Ok(()) => assert!(fits, "accepted a wrong {names}"),
        Err(error) => {
            let message = error.to_string();
            assert!(!fits, "refused a right {names}: {message}");
            assert_eq!(error.kind(), kind, "{message}");
            assert!(message.contains(names), "{message}");
            // Names come from strangers: what repeats them neither steers a terminal nor floods a log.
            assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
            assert!(message.len() < 2_000, "{message}");
        }
    }
}
