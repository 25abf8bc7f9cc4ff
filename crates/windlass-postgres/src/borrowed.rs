//! A connection on loan from its pool, and what becomes of it where its caller gives up.

use crate::{
    pools::Pools,
    session::{Session, Sessions},
};
use deadpool::managed::Object;
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};
use tokio::{runtime::Handle, time::timeout};

/// How long a statement that nobody waits for any more may still take. Most of them end by then, and the connection is as good as before.
const GRACE: Duration = Duration::from_millis(100);

/// Goes back to its pool when it is dropped: where the server still owes it an answer, only with that, or closed. So who gives up calls, by a timeout or a `select!`,
/// leaves no connection to others that waits for what they did not ask for, and has no more statements under way than the pool has places.
pub(crate) struct Borrowed {
    /// Until it is dropped.
    object: Option<Object<Sessions>>,
    pools: Arc<Pools>,
}

impl Borrowed {
    pub(crate) fn new(object: Object<Sessions>, pools: Arc<Pools>) -> Self {
        Self { object: Some(object), pools }
    }
}

impl Deref for Borrowed {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.object.as_ref().expect("it was not dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Session {
        self.object.as_mut().expect("it was not dropped")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Some(object) = self.object.take().filter(|object| object.handle.is_owed_an_answer()) else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(give_back(object, Arc::clone(&self.pools)))),
            Err(_) => object.handle.close(),
        }
    }
}

/// The server process is stopped, because one that waits for a lock does not notice that its client is gone. The connection is closed after that: a pooler that knows its client no
/// more stops nothing, and a late request to stop would hit whoever comes next.
async fn give_back(object: Object<Sessions>, pools: Arc<Pools>) {
    if let Ok(Ok(())) = timeout(GRACE, object.batch_execute("")).await {
        object.handle.answered_in(pools.generation());
        return;
    }
    object.handle.stop(pools.server()).await;
    object.handle.close();
}
