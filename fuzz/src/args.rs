//! Args: what is accepted is JSON that comes back byte for byte, what is refused says why.

use serde::de::IgnoredAny;
use serde_json::Value;
use windlass_core::{Args, Error, ErrorKind, Limits, NewJob};

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"a\"",
    "\"a\":",
    "null",
    "true",
    "0",
    "-0",
    "1e400",
    "0e400",
    "1.7976931348623157e308",
    "1.7976931348623159e308",
    "99999999999999999999999999999999999999999999999999",
    "e",
    "E+",
    "-1e-400",
    "1.",
    "9007199254740993",
    "123456789012345678901234567890",
    "0.1e1",
    "\\u0000",
    "\\\\u0000",
    "\\\\",
    "\\\\\\u0000",
    "\\u000",
    "\\U0000",
    "\\ud800",
    "\\uD83D",
    "\\udc00",
    "\\ud83d\\ude00",
    "\\u0001",
    "\\n",
    "\\/",
    "\0",
    "\u{1}",
    "\n",
    " ",
    "ä",
    "\u{2028}",
    "\u{feff}",
    "😀",
    "[[[[[[[[",
    "]]]]]]]]",
    "{\"a\":",
    "\"[[\"",
    "NaN",
    "'",
    "//",
    "/**/",
];

/// The deepest nesting of args.
const MAX_DEPTH: usize = 64;

/// Takes any bytes as args, as they are and as a string's value.
pub fn body(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return; // every way in takes text, and the CLI's refuses other bytes: see `lines`
    };
    match Args::parse(text) {
        Ok(args) => accepted(text, &args),
        Err(error) => refused(text, &error),
    }
    match Args::from_store(text) {
        Ok(args) => assert_eq!(args.as_str(), trim(text)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgs),
    }
    match Args::of(text) {
        Ok(args) => assert_eq!(serde_json::from_str::<String>(args.as_str()).expect("a string"), text),
        Err(error) => {
            assert!(text.contains('\0'), "refused the string {text:?}: {error}");
            assert!(error.to_string().contains("NUL"), "{error}");
        }
    }
}

fn accepted(text: &str, args: &Args) {
    assert_eq!(args.as_str(), trim(text), "not byte for byte");
    serde_json::from_str::<Value>(args.as_str()).expect("a handler can read accepted args");
    assert!(!args.as_str().contains('\0'));
    assert!(depth(args.as_str()) <= MAX_DEPTH, "nests too deep: {text}");
    assert!(!has_nul(args.as_str()), "a NUL came through: {text}");
    let again = Args::parse(args.as_str()).expect("accepted args are accepted again");
    assert_eq!(again.as_str(), args.as_str());
    let shown = serde_json::to_string(args).expect("args serialise");
    assert_eq!(shown, args.as_str(), "serialised otherwise than kept");
    for (most, fits) in [(args.len(), true), (args.len() - 1, false)] {
        let checked = Limits { max_args_bytes: most }.check(&[NewJob::new("k", args.clone())]);
        assert_eq!(checked.is_ok(), fits, "{} bytes against a limit of {most}", args.len());
    }
}

fn refused(text: &str, error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgs);
    let message = error.to_string();
    assert!(message.starts_with("args "), "{message}");
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return;
    }
    // It is JSON, so one of our rules must be broken.
    match () {
        () if has_nul(text) => assert!(message.contains("NUL") || depth(text) > MAX_DEPTH, "{message}"),
        () if depth(text) > MAX_DEPTH => assert!(!message.contains("NUL"), "{text}: {message}"),
        () => {
            let unreadable = serde_json::from_str::<Value>(text).expect_err("a handler could read it");
            // Both go through the text from its beginning, so they stumble over the same thing.
            let rule = if unreadable.to_string().contains("number") { "number" } else { "surrogate" };
            assert!(message.contains(rule), "{text}: {message}, {unreadable}");
        }
    }
}

/// What JSON calls whitespace around a value is not part of it.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\n', '\r', '\t'])
}

/// How deep valid JSON nests; counted in another way than the product does.
fn depth(json: &str) -> usize {
    let outside = without_strings(json);
    let (mut now, mut most) = (0_usize, 0);
    for byte in outside.bytes() {
        match byte {
            b'[' | b'{' => now += 1,
            b']' | b'}' => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

fn without_strings(json: &str) -> String {
    let plain = json.replace("\\\\", "").replace("\\\"", "");
    plain.split('"').step_by(2).collect()
}

/// Whether valid JSON says NUL in a string.
fn has_nul(json: &str) -> bool {
    json.replace("\\\\", "").contains("\\u0000")
}
