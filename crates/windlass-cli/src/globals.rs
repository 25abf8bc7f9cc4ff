use crate::{failure::Outcome, log::LogFormat, text::json_text};
use serde::Serialize;
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Where --help lists them: not between the options of the command.
const HEADING: &str = "Global options";

/// The options of every command.
#[derive(clap::Args)]
pub struct Globals {
    /// Where the jobs are: sqlite:FILE or postgres://user@host/database. Default: sqlite:windlass.db; to
    /// measure something, a temporary file
    #[arg(long, global = true, env = "WINDLASS_STORE", value_name = "URL", hide_env_values = true, help_heading = HEADING)]
    pub store: Option<String>,
    /// Prints JSON instead of text, one document for each thing that is told; errors too, on stderr
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
    /// Which log lines to print on stderr: a level, or a filter such as windlass=debug
    #[arg(long, global = true, env = "WINDLASS_LOG", value_name = "FILTER", default_value = "warn", help_heading = HEADING)]
    pub log: String,
    /// How to print log lines: as text, or as a JSON object each
    #[arg(long, global = true, env = "WINDLASS_LOG_FORMAT", value_name = "FORMAT", default_value = "text", help_heading = HEADING)]
    pub log_format: LogFormat,
    /// A file with the keys of encrypted jobs, ID:BASE64 a line, the current one first; only its owner may read it. They can be in WINDLASS_KEYS instead, with commas between
    #[arg(long, global = true, env = "WINDLASS_KEYS_FILE", value_name = "FILE", help_heading = HEADING)]
    pub keys_file: Option<PathBuf>,
    /// Who changes something, as the audit log says. Default: the user of this machine, as in anna@host
    #[arg(long = "as", global = true, env = "WINDLASS_ACTOR", value_name = "NAME", help_heading = HEADING)]
    pub actor: Option<String>,
}

impl Globals {
    /// The store's URL: the user's, or a file in the current folder.
    pub fn url(&self) -> &str {
        self.store.as_deref().unwrap_or("sqlite:windlass.db")
    }

    /// Prints a command's answer: JSON when asked for, else the text.
    pub fn print<T: Serialize>(&self, answer: &T, text: impl FnOnce() -> String) -> Outcome {
        let mut output = if self.json { json_text(answer) } else { text() };
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(output.as_bytes())?;
        Ok(stdout.flush()?)
    }
}
