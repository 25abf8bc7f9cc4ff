use crate::Client;
use windlass_memory::{Clock, MemoryStore};

/// A client of an empty store in the memory of this process. Each call makes a store of its own, so tests do not see
/// each other's jobs. Clones of the client share it.
pub fn client() -> Client {
    client_of(&MemoryStore::new())
}

/// A client of a store in memory that you keep, for what else it can do: tell of every [move](MemoryStore::moves) of a
/// job, [make jobs look](MemoryStore::set_counts) as if they had failed before.
///
/// ```
/// use windlass::{Args, JobState, NewJob, testing::{MemoryStore, client_of}};
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let store = MemoryStore::new();
/// let mut moves = store.moves();
/// let id = client_of(&store).enqueue(NewJob::new("mail.send", Args::of(&7)?)).await?;
/// let moved = moves.recv().await.unwrap();
/// assert_eq!((moved.job, moved.to), (id, JobState::Available));
/// # Ok(()) }
/// ```
pub fn client_of(store: &MemoryStore) -> Client {
    Client::from_memory(store.clone())
}

/// The clock of a [`client`]'s store. It runs with tokio's, so paused time pauses it, and can be moved.
///
/// ```
/// use std::time::Duration;
/// use windlass::testing;
/// let client = testing::client();
/// let before = testing::clock(&client).now();
/// testing::clock(&client).advance(Duration::from_secs(3600));
/// assert!(testing::clock(&client).now().duration_since(before).as_hours() >= 1);
/// ```
///
/// # Panics
/// When the client is of another store: only clocks in memory can be moved.
#[track_caller]
pub fn clock(client: &Client) -> &Clock {
    match &client.memory {
        Some(store) => store.clock(),
        None => panic!("only the clock of a client made by windlass::testing can be moved"),
    }
}
