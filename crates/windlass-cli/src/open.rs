//! Opening stores.

use crate::failure::{Failure, Outcome};
use windlass::{Client, ConnectOptions, StoreKind};
use windlass_sqlite::SqliteOptions;

/// Opens a store to look at it: a SQLite file that does not exist is not made for that.
pub async fn existing(url: &str) -> Outcome<Client> {
    existing_with(url, ConnectOptions::default()).await
}

/// The same, with options.
pub async fn existing_with(url: &str, options: ConnectOptions) -> Outcome<Client> {
    if StoreKind::of(url)? == StoreKind::Sqlite {
        // As the store reads it, which says what is wrong with a URL.
        let path = SqliteOptions::default().place_of(url)?;
        if !path.exists() {
            let message = format!(
                "file {path:?} does not exist; run `windlass migrate` to create it, or name the store with --store"
            );
            return Err(Failure::store("schema_missing", message));
        }
    }
    Ok(Client::connect_with(url, options).await?)
}

/// Opens a store to write to it. A SQLite file is created on first use; PostgreSQL must be migrated.
pub async fn create(url: &str) -> Outcome<Client> {
    Ok(Client::connect(url).await?)
}
