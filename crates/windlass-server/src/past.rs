//! What pages ask of the past (counters, timings, causes of failures, marks): read and written as JSON once for all viewers.

use crate::{kept::Kept, problem::Problem};
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
};
use windlass::{Error, ErrorKind};

/// The most answers that are kept. Those beyond are read for who asks.
const MOST: usize = 32;

/// Answers by what was asked for.
#[derive(Default)]
pub(crate) struct Past(Mutex<HashMap<String, Arc<Kept<Bytes>>>>);

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
        let found = self.kept(asked).or_look(written).await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], Bytes::clone(&found)).into_response())
    }

    /// What begins so has changed.
    pub(crate) fn forget(&self, asked: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|each, _| !each.starts_with(asked));
    }

    fn kept(&self, asked: String) -> Arc<Kept<Bytes>> {
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
        let known = || past.0.lock().unwrap().len();
        assert_eq!(known(), MOST);
        past.forget("history 1");
        assert_eq!(known(), MOST - 11);
    }
}
