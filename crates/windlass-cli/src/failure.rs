//! How commands fail.

use crate::text::escape;
use serde_json::{Map, Value};
use std::io::{self, Write};
use tokio::task::JoinError;
use windlass::{Error, ErrorKind};

/// The operation failed, or the store refuses it to this user: saying it again does not help.
const FAILED: u8 = 1;
/// Usage or input was wrong.
const USAGE: u8 = 2;
/// The store cannot be reached or has no fitting schema.
const STORE: u8 = 3;

/// Why a command ended without doing all it was asked to: a code for machines, a message for people.
#[derive(Debug)]
pub struct Failure {
    exit: u8,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
}

/// What every command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The operation failed.
    pub fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: FAILED, code, message: message.into(), details: Map::new() }
    }

    /// The caller asked for something that makes no sense.
    pub fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: USAGE, ..Self::failed(code, message) }
    }

    /// The store is not there, or not as it must be.
    pub fn store(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: STORE, ..Self::failed(code, message) }
    }

    /// Nobody reads our output any more: that is no failure, and there is nobody to tell.
    fn broken_pipe() -> Self {
        Self { exit: 0, ..Self::failed("", "") }
    }

    /// The same failure, with a figure that scripts may want.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The same failure, with words around its message.
    pub fn explain(mut self, explain: impl FnOnce(String) -> String) -> Self {
        self.message = explain(self.message);
        self
    }

    /// Its message.
    pub fn into_message(self) -> String {
        self.message
    }

    /// The line of an input that it names, and its message.
    pub fn at_line(self) -> (Option<u64>, String) {
        (self.details.get("line").and_then(Value::as_u64), self.message)
    }

    /// Tells it on stderr, and gives its exit code.
    pub fn report(self, json: bool) -> u8 {
        if self.exit == 0 {
            return 0;
        }
        let text = if json {
            let mut error = self.details;
            error.insert("code".to_owned(), self.code.into());
            error.insert("message".to_owned(), self.message.into());
            crate::text::json_text(&serde_json::json!({ "error": error }))
        } else {
            format!("error: {} [{}]", escape(&self.message), self.code)
        };
        // When stderr is closed, the exit code has to do.
        let _ = writeln!(io::stderr(), "{text}");
        self.exit
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            _ if error.is_invalid_input() => USAGE,
            _ if error.is_schema_mismatch() => STORE,
            ErrorKind::Unavailable => STORE,
            _ => FAILED,
        };
        let message = match error.kind() {
            ErrorKind::SchemaMissing | ErrorKind::SchemaTooOld if !error.to_string().contains("migrate") => {
                format!("{error}; run `windlass migrate`")
            }
            _ => error.to_string(),
        };
        Self { exit, ..Self::failed(error.code(), message) }
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::failed("internal", format!("a task ended early: {error}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::broken_pipe(),
            _ => Self::failed("io", error.to_string()).with("os_error", error.raw_os_error()),
        }
    }
}
