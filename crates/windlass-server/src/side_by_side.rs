//! Jobs are read one by one, as no store has a call for many; side by side, so that a page of fifty takes no fifty times as long as one.

use futures_util::{StreamExt, TryStreamExt, stream};

/// How many are read at once: as many as the server has connections to PostgreSQL.
pub(crate) const AT_ONCE: usize = 4;

/// What is read of each, in the order in which they were given; or the first error.
pub(crate) async fn side_by_side<T, F, O, E>(
    of: impl IntoIterator<Item = T>,
    read: impl Fn(T) -> F,
) -> Result<Vec<O>, E>
where
    F: Future<Output = Result<O, E>>,
{
    stream::iter(of).map(read).buffered(AT_ONCE).try_collect().await
}
