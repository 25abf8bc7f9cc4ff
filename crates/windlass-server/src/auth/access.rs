use super::{
    cookie::Cookie,
    file::AuthFile,
    identity::{Identity, Role, Via},
    origin::{is_forwarded, is_host_of, is_loopback_host},
    sessions::Sessions,
    throttle::Throttle,
    token::{Hash, NewToken},
};
use crate::problem::Problem;
use axum::{
    extract::ConnectInfo,
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use windlass::{Error, ErrorKind, Result};

/// How long the key of the start is good, once.
const KEY_LIFE: Duration = Duration::from_secs(600);
/// What is wrong with a token that nobody has.
const WRONG_TOKEN: &str = "the token is unknown, was used or has expired";
/// The same where no program can have one.
const NO_TOKENS: &str =
    "this server was started without `--auth FILE` and knows no tokens of programs; start it with that";
/// Longer headers of a proxy name nobody.
const LONGEST_ACTOR: usize = 200;

/// Who may use a server.
#[derive(Clone)]
pub struct Access(Kind);

type Identify = dyn Fn(&Parts) -> Option<Identity> + Send + Sync;

#[derive(Clone)]
enum Kind {
    Loopback,
    File(Arc<AuthFile>),
    Program(Arc<Identify>),
}

impl Access {
    /// Everybody on this machine looks; who has the [key of the start](crate::Server::start_key) may do everything. Others are refused. The default.
    pub fn loopback() -> Self {
        Self(Kind::Loopback)
    }

    /// Those whom a file names.
    pub fn file(file: AuthFile) -> Self {
        Self(Kind::File(Arc::new(file)))
    }

    /// Those whom the program knows that the router is mounted in, by the head of a request (its headers, its extensions); the others are refused.
    /// Writes have to come from pages of this server, so that the program's cookies are safe to use, or have an `Authorization: Bearer` and nothing that a
    /// browser says of the page (`Origin`, `Sec-Fetch-Site`), as those of HTTP workers.
    pub fn program(identify: impl Fn(&Parts) -> Option<Identity> + Send + Sync + 'static) -> Self {
        Self(Kind::Program(Arc::new(identify)))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Loopback => "Access::loopback",
            Kind::File(_) => "Access::file",
            Kind::Program(_) => "Access::program",
        })
    }
}

/// Knows people by what their requests carry.
pub(crate) struct Auth {
    access: Access,
    /// As it was read last.
    file: RwLock<Option<Arc<AuthFile>>>,
    /// How often that was.
    changes: watch::Sender<u64>,
    sessions: Sessions,
    throttle: Throttle,
    key: Mutex<Option<(Hash, Instant)>>,
    /// Where the server listens, if it is known.
    port: Option<u16>,
    cookie: Cookie,
}

impl Auth {
    pub(crate) fn new(access: Access, port: Option<u16>) -> Self {
        let (sessions, throttle) = (Sessions::default(), Throttle::new());
        let file = match &access.0 {
            Kind::File(file) => Some(Arc::clone(file)),
            Kind::Loopback | Kind::Program(_) => None,
        };
        let (file, changes) = (RwLock::new(file), watch::Sender::new(0));
        let (key, cookie) = (Mutex::new(None), Cookie::of_port(port));
        Self { access, file, changes, sessions, throttle, key, port, cookie }
    }

    /// Who may do what, where a file says so.
    pub(crate) fn file(&self) -> Option<Arc<AuthFile>> {
        self.file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells when the file was read anew.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes another file; gives the one before. Who is not in it as before has no session any more.
    pub(crate) fn replace(&self, file: AuthFile) -> Result<Arc<AuthFile>> {
        let file = Arc::new(file);
        let before = {
            let mut known = self.file.write().unwrap_or_else(PoisonError::into_inner);
            known.as_mut().map(|known| std::mem::replace(known, Arc::clone(&file)))
        };
        let Some(before) = before else {
            let message = "the server has no auth file that could be replaced; build it with Access::file";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        };
        self.sessions.keep(|identity| file.keeps(&before, identity.actor()));
        self.changes.send_modify(|changes| *changes += 1);
        Ok(before)
    }

    /// Whether the file says of somebody what the one before said.
    pub(crate) fn keeps(&self, before: &AuthFile, actor: &str) -> bool {
        self.file().is_some_and(|file| file.keeps(before, actor))
    }

    /// A token that makes one browser admin; `None` where there are tokens of other sorts.
    pub(crate) fn start_key(&self) -> Result<Option<String>> {
        if !matches!(self.access.0, Kind::Loopback) {
            return Ok(None);
        }
        let NewToken { text, .. } = NewToken::generate()?;
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Hash::of(&text), Instant::now() + KEY_LIFE));
        Ok(Some(text))
    }

    /// Refuses what came by a name that is not ours: a page of another site whose name leads here (DNS rebinding).
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let file = self.file();
        match &self.access.0 {
            Kind::Loopback if is_forwarded(headers) => {
                let detail = "a proxy passed this on, and whom for is not known: without --auth FILE, only \
                              programs and browsers of this machine are served";
                Err(Problem::forbidden("forwarded", detail))
            }
            Kind::Loopback if !is_loopback_host(headers, self.port) => {
                Err(wrong_host("localhost, 127.0.0.1 or [::1] with the port of this server"))
            }
            _ => match file {
                Some(file) if !file.hosts.is_empty() && !is_host_of(headers, &file.hosts) => {
                    Err(wrong_host("one of `hosts` in the auth file"))
                }
                _ => Ok(()),
            },
        }
    }

    /// Who asks; `None` where nothing says so.
    pub(crate) fn identify(&self, parts: &Parts) -> Result<Option<Identity>, Problem> {
        let token = bearer(&parts.headers);
        // A token of the program's, or one that the proxy passes on, is not for us.
        let is_for_us = !matches!(self.access.0, Kind::Program(_));
        if let Some(token) = token.filter(|_| is_for_us) {
            let known = self.file().and_then(|file| file.identify(token, Via::Bearer));
            if known.is_some() || self.of_proxy(parts).is_none() {
                let why = if self.takes_tokens() { WRONG_TOKEN } else { NO_TOKENS };
                return known.map(Some).ok_or_else(|| self.failed(parts, why));
            }
        }
        if let Some(identity) = self.cookie.find(&parts.headers).and_then(|cookie| self.sessions.find(cookie))
        {
            return Ok(Some(identity));
        }
        match &self.access.0 {
            Kind::File(_) => Ok(self.of_proxy(parts)),
            Kind::Program(identify) => {
                // A proxy may have made it of a cookie, for pages of others too: then it is as good as that.
                let of_browsers = [header::ORIGIN.as_str(), "sec-fetch-site"];
                let is_browser = of_browsers.iter().any(|name| parts.headers.contains_key(*name));
                let via = if token.is_some() && !is_browser { Via::Bearer } else { Via::Program };
                Ok(identify(parts).map(|identity| identity.by(via)))
            }
            Kind::Loopback => match peer(parts) {
                Some(peer) if peer.to_canonical().is_loopback() => {
                    Ok(Some(Identity::new("local", Role::Viewer).by(Via::Loopback)))
                }
                Some(_) => Ok(None),
                None => {
                    let detail = "who asks is not known: serve with into_make_service_with_connect_info::<SocketAddr>(), \
                                  or set an Access";
                    Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail))
                }
            },
        }
    }

    /// Whom a trusted proxy names.
    fn of_proxy(&self, parts: &Parts) -> Option<Identity> {
        let file = self.file()?;
        let proxy = file.proxy.as_ref()?;
        // Of two that say who it is one may have come from outside.
        let mut said = parts.headers.get_all(proxy.header()?).iter();
        let actor = said.next().filter(|_| said.next().is_none())?.to_str().ok()?;
        let is_good = proxy.trusts(peer(parts)?) && !actor.is_empty() && actor.len() <= LONGEST_ACTOR;
        is_good.then(|| proxy.identify(actor)).flatten()
    }

    /// Begins a session for who has a token; gives the cookie.
    pub(crate) fn login(&self, parts: &Parts, token: &str) -> Result<(Identity, String), Problem> {
        // Until the session has begun no other file takes the place of this one, so that whoever takes a token away ends all its sessions.
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let known = match &self.access.0 {
            Kind::Loopback => self.use_key(token),
            Kind::File(_) => file.as_ref().and_then(|file| file.identify(token, Via::Session)),
            Kind::Program(_) => None,
        };
        let Some(identity) = known else {
            drop(file);
            return Err(self.failed(parts, WRONG_TOKEN));
        };
        if !identity.role().may(Role::Viewer) {
            let (actor, role) = (identity.actor(), identity.role());
            let detail = format!(
                "the token of {actor} is right, but of the role {role}, which sees no page; use another"
            );
            return Err(Problem::forbidden("permission_denied", detail));
        }
        let cookie = self.sessions.begin(identity.clone())?;
        Ok((identity, cookie))
    }

    /// Ends the session of a request.
    pub(crate) fn logout(&self, headers: &HeaderMap) {
        if let Some(cookie) = self.cookie.find(headers) {
            self.sessions.end(cookie);
        }
    }

    /// The cookie of its sessions.
    pub(crate) fn cookie(&self) -> &Cookie {
        &self.cookie
    }

    /// How programs write here.
    pub(crate) fn programs(&self) -> &'static str {
        match self.takes_tokens() {
            true => "programs send `Authorization: Bearer` and a token",
            false => "programs need a token, for which the server has to be started with `--auth FILE`",
        }
    }

    fn takes_tokens(&self) -> bool {
        !matches!(self.access.0, Kind::Loopback)
    }

    /// Whether people log in here with a token.
    pub(crate) fn has_login(&self) -> bool {
        !matches!(self.access.0, Kind::Program(_))
    }

    /// What a proxy that is trusted says of how it was reached: under which path, and whether by TLS.
    pub(crate) fn forwarded(&self, parts: &Parts) -> (Option<String>, bool) {
        if !self.is_proxied(parts) {
            return (None, false);
        }
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        let prefix = header("x-forwarded-prefix").map(|prefix| prefix.trim_end_matches('/'));
        let prefix = prefix.filter(|prefix| {
            prefix.starts_with('/') && !prefix.starts_with("//") && prefix.bytes().all(is_plain)
        });
        (prefix.map(str::to_owned), header("x-forwarded-proto") == Some("https"))
    }

    fn is_proxied(&self, parts: &Parts) -> bool {
        self.file().is_some_and(|file| {
            let trusts = |peer| file.proxy.as_ref().is_some_and(|proxy| proxy.trusts(peer));
            peer(parts).is_some_and(trusts)
        })
    }

    fn use_key(&self, token: &str) -> Option<Identity> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let (hash, until) = (*key)?;
        if !hash.is(&Hash::of(token)) || Instant::now() > until {
            return None;
        }
        *key = None;
        Some(Identity::new("local", Role::Admin))
    }

    /// A wrong token: slower and slower for who tries again.
    fn failed(&self, parts: &Parts, why: &str) -> Problem {
        let forwarded = || {
            // The last entry is what the proxy itself saw.
            let chain = parts.headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
            chain.rsplit(',').next()?.trim().parse().ok()
        };
        let address = if self.is_proxied(parts) { forwarded() } else { None };
        let address = address.or_else(|| peer(parts)).unwrap_or(IpAddr::from([0, 0, 0, 0]));
        match self.throttle.failed(address) {
            None => Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", why),
            Some(wait) => {
                let detail = "too many tokens were wrong; a right one is accepted at any time";
                let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail);
                problem.retry_after(wait.as_secs() + 1)
            }
        }
    }
}

fn wrong_host(expected: &str) -> Problem {
    let detail = format!("the Host header names another server; expected {expected}");
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail)
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
