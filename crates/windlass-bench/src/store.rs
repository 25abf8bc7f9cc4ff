//! Connections to the store that is measured.

use crate::{measure::ServerGauge, options::QUEUE};
use windlass::{Client, ConnectOptions, IntoJob, JobId, StoreKind};
use windlass_cli::{
    failure::Outcome,
    measure::{MeasuredStore, Noop},
};

/// Connects a client with this many connections of its own.
pub(crate) async fn connect(store: &MeasuredStore, connections: usize) -> Outcome<Client> {
    let options = ConnectOptions::default().with_pool_size(connections);
    Ok(Client::connect_with(&store.url, options).await?)
}

/// Connects a client for each worker, each with connections of its own as if it were alone in its process. A
/// SQLite file has one writer, so there the workers share one client.
pub(crate) async fn connect_each(url: &str, workers: usize) -> Outcome<Vec<Client>> {
    let first = Client::connect(url).await?;
    let mut clients = vec![first.clone()];
    let shared = StoreKind::of(url)? != StoreKind::Postgres;
    while clients.len() < workers {
        clients.push(if shared { first.clone() } else { Client::connect(url).await? });
    }
    Ok(clients)
}

/// An id that is above those of all jobs so far: jobs that are enqueued from now on have this id or a larger one.
/// The no-op that is enqueued to learn it is handled by the workers, and not counted.
pub(crate) async fn next_id(client: &Client) -> Outcome<JobId> {
    let marker = client.enqueue(Noop { id: 0 }.into_job()?.with_queue(QUEUE)).await?;
    Ok(JobId(marker.0 + 1))
}

/// The same store, for clients and workers whose commits do not wait for the disk.
pub(crate) fn without_waiting(mut store: MeasuredStore) -> Outcome<MeasuredStore> {
    store.url = match StoreKind::of(&store.url)? {
        StoreKind::Postgres => with_parameter(&store.url, "options", "-c%20synchronous_commit%3Doff"),
        _ => with_parameter(&store.url, "synchronous", "normal"),
    };
    Ok(store)
}

/// What an acknowledged write survives.
pub(crate) async fn durability(store: &MeasuredStore, gauge: &ServerGauge) -> String {
    match store.durability() {
        Some(durability) => durability.to_owned(),
        None => {
            let setting = gauge.synchronous_commit().await.unwrap_or_else(|| "unknown".to_owned());
            format!("synchronous_commit={setting}")
        }
    }
}

/// The URL with a parameter, in place of one of the same name.
pub(crate) fn with_parameter(url: &str, name: &str, value: &str) -> String {
    let (plain, query) = url.split_once('?').unwrap_or((url, ""));
    let others = query.split('&').filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let all: Vec<_> = others.map(str::to_owned).chain([format!("{name}={value}")]).collect();
    format!("{plain}?{}", all.join("&"))
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
