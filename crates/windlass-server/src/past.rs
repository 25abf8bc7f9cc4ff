//! What pages ask of the past (counters, timings, causes of failures, marks): read and written as JSON once for all viewers.

use crate::{kept::Kept, problem::Problem, series::Charted};
use axum::{
    body::Bytes,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use windlass::{Client, Error, ErrorKind, HistoryRequest};

/// The most answers that are kept. Those beyond are read for who asks.
const MOST: usize = 32;
/// So much time fits into one answer of the store, however many counters its minutes have.
const FITS: Duration =
    Duration::from_secs(60 * (HistoryRequest::MOST / HistoryRequest::MOST_IN_A_MINUTE) as u64);
/// How much longer steps become until the counts fit into one answer of the store.
const LONGER: u32 = 4;

/// What the store said of the past.
#[derive(Default)]
pub(crate) struct Past {
    answers: Shelf<Bytes>,
    counters: Shelf<Charted>,
}

/// What is kept, by what was asked for.
struct Shelf<T>(Mutex<HashMap<String, Arc<Kept<T>>>>);

impl Past {
    /// The answer to `asked`, which says all that it depends on.
    pub(crate) async fn answer<T: Serialize>(
        &self,
        asked: String,
        look: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Response, Problem> {
        let written = async {
            let written = serde_json::to_vec(&look.await?);
            written.map(Bytes::from).map_err(|cause| unwritten(&cause))
        };
        let found = self.answers.kept(asked).or_look(written).await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], Bytes::clone(&found)).into_response())
    }

    /// What begins so has changed.
    pub(crate) fn forget(&self, asked: &str) {
        let mut known = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|each, _| !each.starts_with(asked));
    }

    /// The counters of a time, with those of the outcome that is asked for: one look at the store for all who ask at once, whatever they tell apart.
    pub(crate) async fn counters(
        &self,
        client: &Client,
        request: &HistoryRequest,
    ) -> windlass::Result<Arc<Charted>> {
        let mut asked = request.clone();
        if asked.last < FITS {
            asked.outcome = None;
        }
        self.counters.kept(format!("{asked:?}")).or_join(in_steps_that_fit(client, asked)).await
    }
}

/// More counts than one answer of the store has come in longer steps, so that a chart of a month has something to show; the answer says in which.
async fn in_steps_that_fit(client: &Client, mut request: HistoryRequest) -> windlass::Result<Charted> {
    loop {
        match client.history(&request).await {
            // All else that is wrong with a request was refused before.
            Err(error) if error.kind() == ErrorKind::InvalidOption && request.step < request.last => {
                request.step = (request.step * LONGER).min(HistoryRequest::LONGEST);
            }
            answer => return answer.map(Charted::of),
        }
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shelf<T> {
    fn kept(&self, asked: String) -> Arc<Kept<T>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, kept| Arc::strong_count(kept) > 1 || !kept.is_idle());
        if known.len() >= MOST && !known.contains_key(&asked) {
            return Arc::default();
        }
        Arc::clone(known.entry(asked).or_default())
    }
}

fn unwritten(cause: &serde_json::Error) -> Problem {
    Error::new(ErrorKind::Internal, format!("an answer cannot be written: {cause}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_is_kept_than_a_bound() {
        let past = Past::default();
        for n in 0..MOST * 2 {
            past.answer(format!("history {n}"), async { Ok(n) }).await.unwrap();
        }
        let known = || past.answers.0.lock().unwrap().len();
        assert_eq!(known(), MOST);
        past.forget("history 1");
        assert_eq!(known(), MOST - 11);
    }
}
