use crate::{measure::open_session, store::with_parameter};
use std::{fs, path::Path};
use tokio_postgres::Error;
use windlass::{StoreKind, redact_url};
use windlass_cli::{
    failure::{Failure, Outcome},
    measure::MeasuredStore,
};

/// Two stores on one server or in one folder, which nobody else uses: one for the busy queue alone, one for the busy
/// queue and the burden. Two, because a burden of ten million jobs cannot be taken away between two rounds, and rounds that do not
/// take turns say nothing on a machine whose speed changes.
pub(crate) struct Places {
    pub(crate) alone: Place,
    pub(crate) beside: Place,
}

/// A store.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) kind: StoreKind,
    /// PostgreSQL: its schema. SQLite: its file.
    pub(crate) name: String,
}

impl Places {
    /// The places of a store that is measured. They are made where they are first used.
    pub(crate) fn of(store: &MeasuredStore) -> Outcome<Self> {
        Ok(Self { alone: Place::of(&store.url, "alone")?, beside: Place::of(&store.url, "beside")? })
    }

    /// Removes both, with all that is in them. An earlier run that was killed may have left them.
    pub(crate) async fn remove(&self) -> Outcome {
        self.alone.remove().await?;
        self.beside.remove().await
    }
}

impl Place {
    fn of(url: &str, part: &str) -> Outcome<Self> {
        let kind = StoreKind::of(url)?;
        Ok(match kind {
            StoreKind::Postgres => {
                let name = format!("windlass_bench_{part}");
                Self { url: with_parameter(url, "schema", &name), kind, name }
            }
            _ => {
                let (file, query) = url.split_at(url.find('?').unwrap_or(url.len()));
                let path = file.strip_prefix("sqlite:").unwrap_or(file);
                let name = format!("{}.{part}", path.strip_prefix("//").unwrap_or(path));
                Self { url: format!("sqlite:{name}{query}"), kind, name }
            }
        })
    }

    /// Lets what was written before be on disk, so that the next round does not pay for it. A role without the right to
    /// ask for that measures without it.
    pub(crate) async fn checkpoint(&self) {
        if self.kind == StoreKind::Postgres
            && let Ok(session) = open_session(&self.url).await
        {
            let _ = session.batch_execute("CHECKPOINT").await;
        }
    }

    /// How many connections the server takes. `None` where there is no server, or it does not say.
    pub(super) async fn max_connections(&self) -> Option<u64> {
        if self.kind != StoreKind::Postgres {
            return None;
        }
        let session = open_session(&self.url).await.ok()?;
        session.query_one("show max_connections", &[]).await.ok()?.get::<_, String>(0).parse().ok()
    }

    async fn remove(&self) -> Outcome {
        match self.kind {
            StoreKind::Postgres => self.drop_schema().await.map_err(|error| {
                let place = redact_url(&self.url);
                Failure::store("unavailable", format!("cannot drop schema {} in {place}: {error}", self.name))
            }),
            _ => {
                for end in ["", "-wal", "-shm"] {
                    let file = format!("{}{end}", self.name);
                    if Path::new(&file).exists() {
                        fs::remove_file(&file)?;
                    }
                }
                Ok(())
            }
        }
    }

    async fn drop_schema(&self) -> Result<(), Error> {
        let session = open_session(&self.url).await?;
        session.batch_execute(&format!("drop schema if exists {} cascade", self.name)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_beside_the_store() {
        let place = |url| Place::of(url, "alone").unwrap();
        let postgres = place("postgres://u@h/d?schema=x&sslmode=prefer");
        assert_eq!(postgres.url, "postgres://u@h/d?sslmode=prefer&schema=windlass_bench_alone");
        let sqlite = place("sqlite:///tmp/a.db?synchronous=normal");
        assert_eq!(
            (sqlite.name.as_str(), sqlite.url.as_str()),
            ("/tmp/a.db.alone", "sqlite:/tmp/a.db.alone?synchronous=normal")
        );
    }
}
