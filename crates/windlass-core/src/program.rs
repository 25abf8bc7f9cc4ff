use crate::{Error, ErrorKind, Result};
use serde::Serialize;

/// What a worker runs, for people who look at a deploy. It does not change while the worker is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Program {
    /// The program's name: of its file, say.
    #[serde(rename = "program")]
    pub name: Option<String>,
    /// The version of the application, as its developers count.
    pub app_version: Option<String>,
    /// What works the jobs, with its version: `Rust 0.1.0`, `Python 0.1.0`, `HTTP 0.1.0`.
    pub engine: Option<String>,
}

impl Program {
    /// The most bytes of each.
    pub const MAX_BYTES: usize = 200;

    /// Checks that each is 1 to 200 bytes without control characters, where it is given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        for (what, text) in
            [("program", &self.name), ("app_version", &self.app_version), ("engine", &self.engine)]
        {
            let Some(text) = text else { continue };
            let most = Self::MAX_BYTES;
            if !(1..=most).contains(&text.len()) {
                let message = format!("the {what} of a worker must be 1 to {most} bytes, got {}", text.len());
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
            if text.chars().any(char::is_control) {
                let message =
                    format!("the {what} of a worker must be without control characters, got {text:?}");
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        }
        Ok(())
    }
}

/// What a worker uses and does, as it said with its last [heartbeat](crate::JobStore::heartbeat_with). `None`: it does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// The memory of its process that is resident, in bytes.
    pub memory_bytes: Option<u64>,
    /// How many jobs it settled per second lately.
    pub jobs_per_second: Option<f64>,
}
