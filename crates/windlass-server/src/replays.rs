//! What was done under an `Idempotency-Key` is not done again: whoever repeats the call gets the answer of the first.
//!
//! An enqueue has its key in the store (`POST /jobs`). Here are those of the other POSTs, of which a repetition would do something twice: kept by this
//! process, for an hour. A key is of one body: with another one it is refused, as the answer of the first would say that this was done.

use crate::problem::Problem;
use axum::{
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::OnceCell, time::Instant};

/// How long an answer is remembered.
const LIFE: Duration = Duration::from_secs(3_600);
/// How many are; beyond, the oldest is forgotten.
const MOST: usize = 10_000;
/// The longest answer.
const MOST_BYTES: usize = 64 << 10;
/// The longest key.
const LONGEST_KEY: usize = 200;

/// A call that is done once under its key.
pub(crate) struct Call {
    /// Who calls, what, and their key.
    id: String,
    /// The hash of the body.
    body: [u8; 32],
    /// See [`Route::adds`](crate::routes::Route::adds).
    adds: bool,
}

impl Call {
    pub(crate) fn new(id: String, adds: bool, body: &[u8]) -> Self {
        Self { id, body: Sha256::digest(body).into(), adds }
    }
}

/// What was done under a key.
struct Kept {
    /// The hash of the body that it answers.
    asked: [u8; 32],
    done: Done,
}

enum Done {
    With(Answer),
    /// Its answer was too large to be kept.
    WithMore,
    /// The store did not say in time, or at all.
    Perhaps,
}

/// An answer that can be given again.
struct Answer {
    status: StatusCode,
    media: Option<HeaderValue>,
    body: Bytes,
}

/// Made by the first call; the others wait for it.
type Cell = Arc<OnceCell<Kept>>;

#[derive(Default)]
struct State {
    known: HashMap<Arc<str>, Cell>,
    /// The oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
}

#[derive(Default)]
pub(crate) struct Replays(Mutex<State>);

/// The key of a call, if it has one.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.any(|other| other != key) {
        return Err(Problem::invalid("two Idempotency-Keys: a repeated call could have either; send one"));
    }
    let is_good = |key: &&str| (1..=LONGEST_KEY).contains(&key.len());
    let wrong =
        || Problem::invalid(format!("Idempotency-Key must be 1 to {LONGEST_KEY} bytes of visible ASCII"));
    key.to_str().ok().filter(is_good).map(Some).ok_or_else(wrong)
}

pub(crate) fn reused() -> Problem {
    let detail = "this Idempotency-Key was used for another body, and nothing was done now: send a new key with a new request, \
                  the same body with a repeated one";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", detail)
}

fn not_kept() -> Problem {
    let detail = format!(
        "this was done under this Idempotency-Key, and is not done again; its answer is not kept, as it has more than {MOST_BYTES} bytes"
    );
    Problem::new(StatusCode::CONFLICT, "conflict", detail)
}

fn unknown() -> Problem {
    let detail = "a call under this Idempotency-Key may have done this: its answer was lost, so it is not done again. \
                  See whether it was done; a new key does it once more";
    Problem::new(StatusCode::CONFLICT, "conflict", detail)
}

impl Replays {
    /// The answer that this call had before, or else that of the work, which is remembered where it succeeds, or may have.
    pub(crate) async fn answer(
        &self,
        call: Call,
        work: impl Future<Output = Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        let Call { id, body: asked, adds } = call;
        let (cell, mut first) = (self.cell(id), None);
        let work = async {
            let answer = match Answer::of(work.await).await {
                Ok(answer) => answer,
                Err(lost) if adds && lost.extensions().get().is_some_and(Problem::may_be_done) => {
                    first = Some(lost);
                    return Ok(Kept { asked, done: Done::Perhaps });
                }
                Err(refused) => return Err(Box::new(refused)),
            };
            first = Some(answer.response());
            let is_kept = answer.body.len() <= MOST_BYTES;
            Ok(Kept { asked, done: if is_kept { Done::With(answer) } else { Done::WithMore } })
        };
        let kept = match cell.get_or_try_init(|| work).await {
            Ok(kept) => kept,
            Err::<_, Box<Response>>(refused) => return Ok(*refused),
        };
        match (first, &kept.done) {
            (Some(first), _) => Ok(first),
            _ if kept.asked != asked => Err(reused()),
            (None, Done::With(answer)) => Ok(answer.again()),
            (None, Done::WithMore) => Err(not_kept()),
            (None, Done::Perhaps) => Err(unknown()),
        }
    }

    fn cell(&self, call: String) -> Cell {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |(at, _): &(Instant, Arc<str>)| at.elapsed() > LIFE;
        while state.order.len() >= MOST || state.order.front().is_some_and(is_old) {
            let Some((_, oldest)) = state.order.pop_front() else { break };
            state.known.remove(&oldest);
        }
        let call: Arc<str> = call.into();
        if let Some(known) = state.known.get(&call) {
            return Arc::clone(known);
        }
        state.order.push_back((Instant::now(), Arc::clone(&call)));
        Arc::clone(state.known.entry(call).or_default())
    }
}

impl Answer {
    /// That of something that was done; what was refused changed nothing, and may be tried again.
    async fn of(answer: Result<Response, Problem>) -> Result<Self, Response> {
        let answer = answer.unwrap_or_else(IntoResponse::into_response);
        if !answer.status().is_success() {
            return Err(answer);
        }
        let (parts, body) = answer.into_parts();
        let body = to_bytes(body, usize::MAX).await.map_err(|error| {
            let detail = format!("it was done, but its answer cannot be read: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
        })?;
        let media = parts.headers.get(header::CONTENT_TYPE).cloned();
        Ok(Self { status: parts.status, media, body })
    }

    fn response(&self) -> Response {
        let mut response = (self.status, Body::from(self.body.clone())).into_response();
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        if let Some(media) = &self.media {
            headers.insert(header::CONTENT_TYPE, media.clone());
        }
        response
    }

    fn again(&self) -> Response {
        let mut response = self.response();
        let replayed = (HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true"));
        response.headers_mut().insert(replayed.0, replayed.1);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No answer of ours is so large, as names in it are bounded.
    #[tokio::test]
    async fn what_has_an_answer_that_is_too_large_to_keep_is_done_once() {
        let (replays, mut done) = (Replays::default(), 0);
        for (body, says) in [("a", Ok(())), ("a", Err("is not done again")), ("b", Err("another body"))] {
            let call = Call::new("anna run k".to_owned(), true, body.as_bytes());
            let work = async {
                done += 1;
                Ok("x".repeat(MOST_BYTES + 1).into_response())
            };
            match (replays.answer(call, work).await, says) {
                (Ok(answer), Ok(())) => {
                    assert_eq!(to_bytes(answer.into_body(), usize::MAX).await.unwrap().len(), MOST_BYTES + 1);
                }
                (Err(problem), Err(says)) => assert!(problem.detail().contains(says)),
                (answer, _) => panic!("{body}: {}", answer.is_ok()),
            }
        }
        assert_eq!(done, 1);
    }
}
