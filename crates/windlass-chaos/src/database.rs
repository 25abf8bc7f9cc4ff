use anyhow::Result;
use tokio_postgres::{Client, NoTls};

/// A plain connection to the database of a store's URL, as a user's own program has; its driver ends with it.
/// The parameters that are Windlass's mean nothing to the driver and are left out.
pub(crate) async fn connect(store: &str) -> Result<Client> {
    let (base, parameters) = store.split_once('?').unwrap_or((store, ""));
    let ours = |parameter: &str| ["schema=", "pooler="].iter().any(|name| parameter.starts_with(name));
    let theirs: Vec<&str> =
        parameters.split('&').filter(|parameter| !parameter.is_empty() && !ours(parameter)).collect();
    let url = if theirs.is_empty() { base.to_owned() } else { format!("{base}?{}", theirs.join("&")) };
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
