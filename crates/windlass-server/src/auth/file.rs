use super::{
    identity::{Identity, Role, Via},
    token::Hash,
};
use crate::redact::Redaction;
use axum::http::HeaderName;
use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::Path,
    sync::Arc,
};
use windlass::{AuditEntry, Error, ErrorKind, Result};

/// Who may do what, from a TOML file: tokens by their hashes, proxies that are trusted, what is hidden.
///
/// ```
/// let file = windlass_server::AuthFile::parse(r#"
///     hosts = ["jobs.example.com"]    # names that this server is reached by; default: any
///
///     [[token]]                       # `windlass token NAME --role ROLE` prints these lines
///     name = "deploy"
///     role = "operator"
///     sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
///     expires = 2027-01-01T00:00:00Z  # optional
///
///     [proxy]                         # optional: a proxy that is believed how and from where it was reached
///     trusted = ["10.0.0.0/8"]
///     header = "X-Forwarded-Email"    # optional: it also says who it is
///     roles = { admin = ["anna@shop.example"], operator = ["bob@shop.example"] }
///     others = "viewer"               # whom no list names; default: nobody
///
///     [redact]
///     kinds."mail.*" = ["to"]
/// "#)?;
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AuthFile {
    tokens: Vec<Token>,
    pub(super) proxy: Option<Proxy>,
    pub(crate) redaction: Arc<Redaction>,
    pub(super) hosts: Vec<String>,
}

#[derive(Clone, PartialEq, Eq)]
struct Token {
    name: String,
    hash: Hash,
    role: Role,
    expires: Option<Timestamp>,
}

/// A proxy that is believed how it was reached, and, with a header for that, by whom.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proxy {
    pub(super) trusted: Vec<IpNet>,
    header: Option<String>,
    #[serde(default)]
    roles: BTreeMap<Role, Vec<String>>,
    others: Option<Role>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    token: Vec<SaidToken>,
    proxy: Option<Proxy>,
    #[serde(default)]
    redact: Redaction,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidToken {
    name: String,
    sha256: String,
    role: Role,
    expires: Option<toml::value::Datetime>,
}

impl AuthFile {
    /// Reads a file that nobody but its owner may read; or, when that is root, a group.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it cannot be read, others may read it, or it makes no sense.
    pub fn read(path: &Path) -> Result<Self> {
        let at = |what: String| refused(format!("auth file {}: {what}", path.display()));
        check_mode(path).map_err(at)?;
        let text = std::fs::read_to_string(path).map_err(|cause| at(cause.to_string()))?;
        Self::parse(&text).map_err(|error| at(error.to_string()))
    }

    /// Reads the text of one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it makes no sense, or lets nobody in.
    pub fn parse(text: &str) -> Result<Self> {
        let said: Said = toml::from_str(text).map_err(|cause| refused(on_one_line(text, &cause)))?;
        let tokens: Vec<Token> = said.token.into_iter().map(SaidToken::token).collect::<Result<_>>()?;
        if tokens.is_empty() && said.proxy.as_ref().and_then(Proxy::header).is_none() {
            return Err(refused(
                "it has no [[token]] and no [proxy] with a header; `windlass token NAME` makes a token"
                    .to_owned(),
            ));
        }
        for (at, token) in tokens.iter().enumerate() {
            if tokens[..at].iter().any(|other| other.name == token.name || other.hash == token.hash) {
                return Err(refused(format!("two tokens are alike in name or hash: {:?}", token.name)));
            }
        }
        said.proxy.as_ref().map_or(Ok(()), Proxy::check)?;
        if let Some(host) = said.hosts.iter().find(|host| !is_host(host)) {
            return Err(refused(format!(
                "hosts has {host:?}; write names as in jobs.example.com, without scheme, port or *"
            )));
        }
        Ok(Self { tokens, proxy: said.proxy, redaction: Arc::new(said.redact), hosts: said.hosts })
    }

    /// Whether it says of somebody what the one before said: by token, or by proxy where none of them has a token of that name.
    pub(super) fn keeps(&self, before: &Self, actor: &str) -> bool {
        let [now, then] = [self, before].map(|file| file.tokens.iter().find(|token| token.name == actor));
        now == then && (now.is_some() || self.proxy == before.proxy)
    }

    /// Whom a token is of. Looks at all, so that the time tells nothing.
    pub(super) fn identify(&self, token: &str, via: Via) -> Option<Identity> {
        let hash = Hash::of(token);
        let mut found = None;
        for token in &self.tokens {
            if token.hash.is(&hash) {
                found = Some(token);
            }
        }
        let identity =
            |token: &Token| Identity::new(token.name.clone(), token.role).by(via).until(token.expires);
        found.map(identity).filter(|identity| !identity.is_over())
    }
}

impl Proxy {
    fn check(&self) -> Result<()> {
        let names = !self.roles.is_empty() || self.others.is_some();
        let wrong = match self.header() {
            _ if self.trusted.is_empty() => "[proxy] needs addresses that are trusted",
            Some("") => "the header of [proxy] is empty; leave it out where the proxy knows nobody",
            Some(header) if HeaderName::from_bytes(header.as_bytes()).is_err() => {
                return Err(refused(format!(
                    "the header of [proxy] is {header:?}, which no header is called"
                )));
            }
            None if names => "[proxy] gives roles, but has no header that says who somebody is",
            _ => return Ok(()),
        };
        Err(refused(wrong.to_owned()))
    }

    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|net| net.contains(&address))
    }

    /// The header that says who somebody is.
    pub(super) fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// Whom the header names; the highest of their roles.
    pub(super) fn identify(&self, actor: &str) -> Option<Identity> {
        let listed =
            |role: &Role| self.roles.get(role).is_some_and(|actors| actors.iter().any(|one| one == actor));
        let role = Role::ALL.into_iter().rev().find(listed).or(self.others)?;
        Some(Identity::new(actor, role).by(Via::Proxy))
    }
}

impl SaidToken {
    fn token(self) -> Result<Token> {
        let Self { name, sha256, role, expires } = self;
        check_name(&name)?;
        let hash = Hash::parse(&sha256).ok_or_else(|| {
            refused(format!(
                "sha256 of token {name:?} must be 64 hexadecimal digits; `windlass token` prints them"
            ))
        })?;
        let time = |at: toml::value::Datetime| {
            at.to_string().parse().map_err(|_| {
                refused(format!("expires of token {name:?} needs a zone, such as 2027-01-01T00:00:00Z"))
            })
        };
        let expires = expires.map(time).transpose()?;
        Ok(Token { name, hash, role, expires })
    }
}

/// The name of a token is that of its owner in the audit log, which keeps none that is empty, and cuts a longer one.
fn check_name(name: &str) -> Result<()> {
    if (1..=AuditEntry::MAX_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control) {
        return Ok(());
    }
    let most = AuditEntry::MAX_NAME_BYTES;
    Err(refused(format!("the name of a token must be 1 to {most} bytes without control characters")))
}

/// Without the hash.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?}, {})", self.name, self.role)
    }
}

/// What is wrong, and where: an error of a command is one line.
fn on_one_line(text: &str, cause: &toml::de::Error) -> String {
    let Some(at) = cause.span() else { return cause.message().to_owned() };
    let before = text.get(..at.start).unwrap_or_default();
    let (number, start) = (before.matches('\n').count(), before.rfind('\n').map_or(0, |end| end + 1));
    let line = text[start..].lines().next().unwrap_or_default();
    format!("line {}, `{line}`: {}", number + 1, cause.message())
}

/// Whether a `Host` header can have this name.
fn is_host(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match name {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.is_ascii()
                && !host.contains(|c: char| c.is_whitespace() || ":/*[]@?#".contains(c))
        }
    }
}

#[cfg(unix)]
fn check_mode(path: &Path) -> std::result::Result<(), String> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let metadata = std::fs::metadata(path).map_err(|cause| cause.to_string())?;
    check_readers(metadata.permissions().mode() & 0o777, metadata.uid())
}

/// Its owner alone may read it. Of a file that is root's a group may, too: Kubernetes and systemd hand secrets to a service like that, and who
/// may read it is up to root anyway.
#[cfg(unix)]
fn check_readers(mode: u32, owner: u32) -> std::result::Result<(), String> {
    let too_much = if owner == 0 { 0o037 } else { 0o077 };
    match mode & too_much {
        0 => Ok(()),
        _ => Err(format!("others may read or write it (mode {mode:03o}); run `chmod 600` on it")),
    }
}

#[cfg(not(unix))]
fn check_mode(_: &Path) -> std::result::Result<(), String> {
    Ok(())
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use super::{super::token::NewToken, *};

    #[test]
    fn tokens_are_known_by_their_hashes_until_they_expire() {
        let (good, old) = (NewToken::generate().unwrap(), NewToken::generate().unwrap());
        let file = AuthFile::parse(&format!(
            "[[token]]\nname='ci'\nrole='operator'\nsha256='{}'\nexpires=2999-01-01T00:00:00Z\n\
             [[token]]\nname='old'\nrole='admin'\nsha256='{}'\nexpires=2000-01-01T00:00:00Z\n",
            good.sha256, old.sha256
        ))
        .unwrap();
        let known = file.identify(&good.text, Via::Bearer).unwrap();
        assert_eq!((known.actor(), known.role()), ("ci", Role::Operator));
        for wrong in [old.text.as_str(), good.sha256.as_str(), ""] {
            assert!(file.identify(wrong, Via::Bearer).is_none());
        }
        assert!(!format!("{file:?}").contains(&good.sha256[..8]));
    }

    #[test]
    fn proxies_name_people_exactly() {
        let file = AuthFile::parse(
            "[proxy]\ntrusted=['10.0.0.0/8','::1/128']\nheader='X-Email'\nroles={admin=['a@x'],operator=['a@x','b@x']}\n",
        )
        .unwrap();
        let proxy = file.proxy.unwrap();
        let role = |actor: &str| proxy.identify(actor).map(|identity| identity.role());
        assert_eq!(
            (role("a@x"), role("b@x"), role("b@x.evil")),
            (Some(Role::Admin), Some(Role::Operator), None)
        );
        let trusts = |address: &str| proxy.trusts(address.parse().unwrap());
        assert!(trusts("10.1.2.3") && trusts("::ffff:10.1.2.3") && trusts("::1") && !trusts("11.0.0.1"));
    }

    #[test]
    fn only_root_shares_a_file_with_a_group() {
        for (mode, owner, is_fine) in [
            (0o600, 1000, true),
            (0o640, 1000, false),
            (0o604, 1000, false),
            (0o440, 0, true),
            (0o640, 0, true),
            (0o660, 0, false),
            (0o644, 0, false),
        ] {
            assert_eq!(check_readers(mode, owner).is_ok(), is_fine, "{mode:o} of {owner}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, says) in [
            ("", "no [[token]]"),
            ("[[token]]\nname='a'\nrole='root'\nsha256=''", "root"),
            ("[[token]]\nname='a'\nrole='admin'\nsha256='12'", "64 hexadecimal"),
            ("[[token]]\nname=''\nrole='admin'\nsha256='12'", "name of a token must be"),
            ("tokens=[]", "tokens"),
            ("[proxy]\ntrusted=['10.0.0.0/99']\nheader='x'", "10.0.0.0/99"),
            ("[proxy]\ntrusted=[]\nheader='x'", "needs addresses"),
            ("[proxy]\ntrusted=['::1/128']", "no [[token]]"),
            ("[proxy]\ntrusted=['::1/128']\nheader=''", "is empty"),
            ("[proxy]\ntrusted=['::1/128']\nheader='X Email'", "\"X Email\", which no header is called"),
            ("[proxy]\ntrusted=['::1/128']\nheader=7", "line 3, `header=7`: invalid type: integer `7`"),
            ("[redact]\nkinds.'*.send'=['to']", "line 1, `[redact]`: kinds has \"*.send\""),
        ] {
            let error = AuthFile::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(says), "{text}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        let of = |host: &str| {
            AuthFile::parse(&format!("hosts=['{host}']\n[proxy]\ntrusted=['::1/128']\nheader='x'"))
        };
        for host in ["jobs.example.com", "localhost", "10.0.0.5", "[::1]", "jobs_1"] {
            of(host).unwrap();
        }
        for host in [
            "",
            "jobs.example.com:443",
            "https://jobs.example.com",
            "*.example.com",
            "::1",
            "a b",
            "ä.example",
        ] {
            let said = of(host).unwrap_err().to_string();
            assert!(said.contains(&format!("hosts has {host:?}")), "{said}");
        }
    }
}
