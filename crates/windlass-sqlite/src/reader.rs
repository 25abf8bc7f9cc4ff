//! Readers: threads with a connection that only reads, so that inspection never holds up writers; nor, since there are two, who looks whether
//! something is due.

use crate::error::{Fault, Outcome};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use windlass_core::Result;

/// A question for the reader.
pub(crate) type Question = Box<dyn FnOnce(&Connection) + Send>;

/// A question and where its answer arrives. It is asked inside one snapshot.
pub(crate) fn question<T: Send + 'static>(
    ask: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
) -> (Question, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    let question = Box::new(move |conn: &Connection| {
        if !reply.is_closed() {
            // A caller that went away needs no answer.
            let _ = reply.send(snapshot(conn, ask).map_err(Fault::into_error));
        }
    });
    (question, answer)
}

fn snapshot<T>(conn: &Connection, ask: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
    let snapshot = conn.unchecked_transaction()?;
    let answer = ask(&snapshot)?;
    snapshot.commit()?;
    Ok(answer)
}

/// Serves until every sender is gone.
pub(crate) fn serve(conn: &Connection, mut inbox: mpsc::Receiver<Question>) {
    while let Some(question) = inbox.blocking_recv() {
        question(conn);
    }
}
