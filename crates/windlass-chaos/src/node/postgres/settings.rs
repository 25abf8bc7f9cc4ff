use anyhow::{Context, Result};
use std::{collections::BTreeMap, fmt::Write as _, fs::File, io::Write as _, path::Path};

/// Included by `postgresql.conf`, so that it can be written anew as a whole.
const FILE: &str = "windlass-node.conf";

/// What serves tests: many connections, a standby at any time, and a start that does not take long.
const DEFAULTS: [(&str, &str); 8] = [
    // In the folder of the data, so that a killed server leaves nothing elsewhere.
    ("dynamic_shared_memory_type", "mmap"),
    ("jit", "off"),
    ("max_connections", "200"),
    ("shared_buffers", "128MB"),
    ("wal_level", "replica"),
    ("wal_keep_size", "256MB"),
    ("wal_receiver_status_interval", "1s"),
    ("max_wal_size", "2GB"),
];

/// The settings of one server.
#[derive(Clone)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(super) fn new(chosen: Vec<(String, String)>) -> Self {
        let defaults = DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self(defaults.chain(chosen).collect())
    }

    pub(super) fn set(&mut self, settings: &[(&str, &str)]) {
        self.0.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }

    pub(super) fn write(&self, data: &Path) -> Result<()> {
        let mut text = String::new();
        for (name, value) in &self.0 {
            writeln!(text, "{name} = '{}'", value.replace('\'', "''"))?;
        }
        let file = data.join(FILE);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        super::give_to_server_user(&file)?;
        let main = data.join("postgresql.conf");
        let include = format!("include_if_exists = '{FILE}'\n");
        if !std::fs::read_to_string(&main)?.ends_with(&include) {
            File::options().append(true).open(main)?.write_all(include.as_bytes())?;
        }
        Ok(())
    }
}
