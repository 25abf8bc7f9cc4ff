use crate::{
    cli::Globals,
    failure::{Failure, Outcome},
    measure::ServerGauge,
};
use tempfile::TempDir;
use windlass::{Client, ConnectOptions, JobFilter, JobId, QueueStats, StoreKind, redact_url};

/// Where a trial runs: in the store that the user named, or in a temporary file that goes with it.
pub(crate) struct Place {
    pub(crate) url: String,
    folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn find(globals: &Globals) -> Outcome<Self> {
        if let Some(url) = &globals.store {
            return Ok(Self { url: url.clone(), folder: None });
        }
        let folder = tempfile::Builder::new().prefix("windlass-").tempdir().map_err(|error| {
            Failure::failed(
                "storage_full",
                format!("cannot make a temporary folder: {error}; name a store with --store"),
            )
        })?;
        Ok(Self { url: format!("sqlite:{}", folder.path().join("trial.db").display()), folder: Some(folder) })
    }

    /// The same place for clients and workers whose commits do not wait for the disk.
    pub(crate) fn without_waiting(mut self) -> Outcome<Self> {
        self.url = match StoreKind::of(&self.url)? {
            StoreKind::Postgres => with_parameter(&self.url, "options", "-c%20synchronous_commit%3Doff"),
            _ => with_parameter(&self.url, "synchronous", "normal"),
        };
        Ok(self)
    }

    /// Whether nothing of it will stay.
    pub(crate) fn is_temporary(&self) -> bool {
        self.folder.is_some()
    }

    /// What to call it in a report.
    pub(crate) fn name(&self) -> String {
        if self.is_temporary() { "temporary file".to_owned() } else { redact_url(&self.url) }
    }

    /// A client with so many connections of its own.
    pub(crate) async fn client(&self, connections: usize) -> Outcome<Client> {
        let options = ConnectOptions::default().with_pool_size(connections);
        Ok(Client::connect_with(&self.url, options).await?)
    }

    /// A client for each of so many workers, each with connections of its own as if it were alone in its
    /// process. A SQLite file has one writer, so there they share it.
    pub(crate) async fn clients(&self, workers: usize) -> Outcome<Vec<Client>> {
        clients(&self.url, workers).await
    }

    /// What an acknowledged write has survived.
    pub(crate) async fn durability(&self, gauge: &ServerGauge) -> String {
        if StoreKind::of(&self.url).is_ok_and(|kind| kind == StoreKind::Sqlite) {
            let relaxed = self.url.to_ascii_lowercase().contains("synchronous=normal");
            return if relaxed { "synchronous=normal" } else { "synchronous=full" }.to_owned();
        }
        let setting = gauge.synchronous_commit().await.unwrap_or_else(|| "unknown".to_owned());
        format!("synchronous_commit={setting}")
    }
}

pub(super) async fn clients(url: &str, workers: usize) -> Outcome<Vec<Client>> {
    let first = Client::connect(url).await?;
    let mut clients = vec![first.clone()];
    let shared = StoreKind::of(url)? != StoreKind::Postgres;
    while clients.len() < workers {
        clients.push(if shared { first.clone() } else { Client::connect(url).await? });
    }
    Ok(clients)
}

/// The URL with a parameter; it takes the place of one of the same name.
fn with_parameter(url: &str, name: &str, value: &str) -> String {
    let (plain, query) = url.split_once('?').unwrap_or((url, ""));
    let others = query.split('&').filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let all: Vec<_> = others.map(str::to_owned).chain([format!("{name}={value}")]).collect();
    format!("{plain}?{}", all.join("&"))
}

/// The counts of a queue; zero when it does not exist yet.
pub(crate) async fn counts(client: &Client, queue: &str) -> Outcome<QueueStats> {
    let queues = client.queues().await?;
    Ok(queues.into_iter().find(|stats| stats.name == queue).unwrap_or_default())
}

/// The id after the newest job: what is enqueued from now on has at least this.
pub(crate) async fn next_id(client: &Client) -> Outcome<JobId> {
    let newest = client.jobs(&JobFilter { limit: 1, ..JobFilter::default() }).await?;
    Ok(newest.first().map_or(JobId(0), |job| JobId(job.id.0 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_takes_the_place_of_its_namesake() {
        assert_eq!(with_parameter("sqlite:a", "synchronous", "normal"), "sqlite:a?synchronous=normal");
        let url = "sqlite:a?x=1&synchronous=full";
        assert_eq!(with_parameter(url, "synchronous", "normal"), "sqlite:a?x=1&synchronous=normal");
    }
}
