//! Opening stores.

use crate::failure::{Failure, Outcome};
use std::path::Path;
use windlass::{Client, ConnectOptions, StoreKind, sqlite_file};

/// Opens a store to look at it: a SQLite file that does not exist is not made for that.
pub async fn existing(url: &str) -> Outcome<Client> {
    existing_with(url, ConnectOptions::default()).await
}

/// The same, with options.
pub async fn existing_with(url: &str, options: ConnectOptions) -> Outcome<Client> {
    if StoreKind::of(url)? == StoreKind::Sqlite
        && let Some(path) = sqlite_path(url).filter(|path| !Path::new(path).exists())
    {
        let message = format!(
            "file {path:?} does not exist; run `windlass migrate` to create it, or name the store with --store"
        );
        return Err(Failure::store("schema_missing", message));
    }
    Ok(Client::connect_with(url, options).await?)
}

/// Opens a store to write to it. A SQLite file is created on first use; PostgreSQL must be migrated.
pub async fn create(url: &str) -> Outcome<Client> {
    Ok(Client::connect(url).await?)
}

/// The file that a SQLite URL names, unless the store has to explain what is wrong with it.
pub fn sqlite_path(url: &str) -> Option<&str> {
    sqlite_file(url).filter(|path| !path.is_empty() && !path.contains(":memory:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_files() {
        for (url, path) in [
            ("sqlite:a.db", Some("a.db")),
            ("sqlite:/x/a.db?synchronous=normal", Some("/x/a.db")),
            ("sqlite:///x/a.db", Some("/x/a.db")),
            ("sqlite://a.db", Some("a.db")),
            ("sqlite:", None),
            ("sqlite::memory:", None),
        ] {
            assert_eq!(sqlite_path(url), path, "{url}");
        }
    }
}
