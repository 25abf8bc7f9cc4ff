use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};
use tokio_util::sync::CancellationToken;
use windlass::{Error, ErrorKind};

/// What somebody may do: from viewer on each role all that the one before may. Workers work jobs, and nothing else; nobody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Works jobs over HTTP: takes them with all that is in their args, and says what became of them. Sees nothing else.
    Worker,
    /// Looks at everything but hidden values.
    Viewer,
    /// Enqueues, retries, cancels, edits and deletes jobs; pauses and resumes queues and schedules.
    Operator,
    /// Declares schedules, changes limits and what is kept, sees hidden values and the audit log.
    Admin,
}

impl Role {
    /// All of them, the one that may least first.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Viewer, Self::Operator, Self::Admin];

    /// Whether it is enough for what is for `least` and above.
    pub(crate) fn may(self, least: Self) -> bool {
        match least {
            Self::Worker => self == Self::Worker,
            least => self >= least,
        }
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or_else(|| {
            let message = format!("unknown role {name:?}; use one of worker, viewer, operator, admin");
            Error::new(ErrorKind::InvalidOption, message)
        })
    }
}

/// By what somebody is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// An `Authorization: Bearer` header, which no browser sends by itself.
    Bearer,
    /// The cookie of a session.
    Session,
    /// A header of a proxy that is trusted.
    Proxy,
    /// The program that the router is mounted in.
    Program,
    /// Nothing but that they are on this machine.
    Loopback,
}

impl Via {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::Session => "session",
            Self::Proxy => "proxy",
            Self::Program => "program",
            Self::Loopback => "loopback",
        }
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Identity {
    actor: String,
    role: Role,
    via: Via,
    /// When the token expires.
    until: Option<Timestamp>,
    /// Cancelled when the session ends, if it is one.
    ended: CancellationToken,
}

impl Identity {
    /// Somebody whom the program knows that the router is mounted in.
    pub fn new(actor: impl Into<String>, role: Role) -> Self {
        Self { actor: actor.into(), role, via: Via::Program, until: None, ended: CancellationToken::new() }
    }

    pub(super) fn until(self, until: Option<Timestamp>) -> Self {
        Self { until, ..self }
    }

    pub(super) fn of_session(self, ended: CancellationToken) -> Self {
        Self { ended, ..self }
    }

    /// Returns when its session has ended; never for others.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// How long its token is still good, if it expires.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        let left = self.until?.duration_since(Timestamp::now());
        Some(left.try_into().unwrap_or_default())
    }

    /// Whether its token has expired.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Timestamp::now())
    }

    pub(crate) fn by(self, via: Via) -> Self {
        Self { via, ..self }
    }

    /// The name, for people and the audit log.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// What they may do.
    pub fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn via(&self) -> Via {
        self.via
    }
}
