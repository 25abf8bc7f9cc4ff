use super::{
    identity::{Identity, Via},
    token::{Hash, hex, random},
};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::Result;

/// A session ends so long after its login, however much it is used.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 3600);
/// How many there are at most; beyond, the one that was unused longest ends.
const MOST: usize = 10_000;

struct Session {
    identity: Identity,
    began: Instant,
    used: Instant,
    /// Tells what is open of it, as streams, that it has ended.
    _ends: DropGuard,
}

/// The sessions of this process's browsers, by the hashes of their cookies. They end with it, and with the tokens that they were begun with.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Hash, Session>>);

impl Sessions {
    /// Begins one; gives the cookie.
    pub(super) fn begin(&self, identity: Identity) -> Result<String> {
        let cookie = hex(&random()?);
        let ended = CancellationToken::new();
        let identity = identity.by(Via::Session).of_session(ended.clone());
        let now = Instant::now();
        let session = Session { identity, began: now, used: now, _ends: ended.drop_guard() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, session)| session.used).map(|(cookie, _)| *cookie);
            oldest.map(|oldest| all.remove(&oldest));
        }
        all.insert(Hash::of(&cookie), session);
        Ok(cookie)
    }

    /// Whose it is.
    pub(super) fn find(&self, cookie: &str) -> Option<Identity> {
        let hash = Hash::of(cookie);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = all.get_mut(&hash)?;
        if session.began.elapsed() > LIFE || session.identity.is_over() {
            all.remove(&hash);
            return None;
        }
        session.used = Instant::now();
        Some(session.identity.clone())
    }

    /// Ends those of whoever is not kept.
    pub(super) fn keep(&self, is_kept: impl Fn(&Identity) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, session| is_kept(&session.identity));
    }

    pub(super) fn end(&self, cookie: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&Hash::of(cookie));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::identity::Role, *};

    #[tokio::test(start_paused = true)]
    async fn sessions_end_when_they_are_ended_and_twelve_hours_after_the_login() {
        let sessions = Sessions::default();
        let [used, ended] = [0; 2].map(|_| sessions.begin(Identity::new("a", Role::Viewer)).unwrap());
        tokio::time::advance(LIFE / 2).await;
        sessions.end(&ended);
        assert!(sessions.find(&used).is_some() && sessions.find(&ended).is_none());
        let later = sessions.begin(Identity::new("a", Role::Viewer)).unwrap();
        tokio::time::advance(LIFE / 2 + Duration::from_secs(1)).await;
        assert!(sessions.find(&used).is_none(), "though it was used");
        assert!(sessions.find(&later).is_some());
    }

    #[test]
    fn a_session_ends_with_its_token() {
        let sessions = Sessions::default();
        let now = jiff::Timestamp::now();
        let until = |seconds| {
            let until = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
            sessions.begin(Identity::new("a", Role::Admin).until(Some(until))).unwrap()
        };
        let (over, good) = (until(0), until(3600));
        assert!(sessions.find(&over).is_none() && sessions.find(&good).is_some());
    }
}
