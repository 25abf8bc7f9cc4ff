//! TLS by rustls, asked for in the store URL as libpq does it.
//!
//! | `sslmode`          | encrypted                | the server's certificate                               |
//! |--------------------|--------------------------|--------------------------------------------------------|
//! | `disable`          | never                    |                                                        |
//! | `prefer` (default) | when TLS can be agreed   | any                                                    |
//! | `require`          | always                   | any; with `sslrootcert` its chain must lead there      |
//! | `verify-ca`        | always                   | its chain must lead to `sslrootcert`                   |
//! | `verify-full`      | always                   | its chain must lead to `sslrootcert`, or to a root of the system when that is not given, and it must be made out to the host |
//!
//! `prefer` and `require` alone keep out who only listens, not who pretends to be the server: that
//! takes `verify-full`. `sslrootcert=system` are the system's roots, for `verify-full` only, which is
//! then also the default. Connections through a unix socket are never encrypted.
//!
//! Two differences from libpq, both towards safety: nothing is read from `~/.postgresql`, and
//! `sslrootcert` beside `prefer`, which would protect nothing, is refused.

use crate::verifier::Verifier;
use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject},
};
use std::sync::Arc;
use tokio_postgres::{
    Config,
    config::{ChannelBinding, Host, SslMode, SslNegotiation},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The largest file of root certificates that is read: ten times all public roots together.
const MAX_ROOT_FILE: u64 = 4 << 20;

/// The parameters of the URL that this file is about. The driver's own parser knows only some of them.
#[derive(Default)]
pub(crate) struct TlsParameters {
    mode: Option<Mode>,
    roots: Option<Roots>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Roots {
    System,
    File(String),
}

/// What the server's certificate must show.
#[derive(Debug, PartialEq, Eq)]
enum Trust<'a> {
    Anyone,
    Chain { roots: &'a Roots, host: bool },
}

impl TlsParameters {
    /// Takes one parameter of the URL, when it is one of these.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let text = percent_decode_str(value).decode_utf8().map_err(|_| format!("{key} is not UTF-8"))?;
        match key {
            "sslmode" => self.mode = Some(Mode::read(&text)?),
            "sslrootcert" if text == "system" => self.roots = Some(Roots::System),
            "sslrootcert" => self.roots = Some(Roots::File(text.into_owned())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets the driver's mode and makes what encrypts; reads the root certificates when they are needed.
    ///
    /// # Errors
    /// Parameters that contradict each other, or root certificates that cannot be read.
    pub(crate) fn connector(&self, config: &mut Config) -> Result<MakeRustlsConnect, String> {
        let (mode, trust) = self.resolve()?;
        config.ssl_mode(if is_local(config) { SslMode::Disable } else { mode });
        let provider = Arc::new(ring::default_provider());
        let verifier = match trust {
            Trust::Chain { roots, host } if config.get_ssl_mode() != SslMode::Disable => {
                let given = roots.read()?;
                Verifier::chain(&provider, store_of(&given, roots)?, given, host)?
            }
            _ => Verifier::anyone(&provider, config.get_channel_binding() == ChannelBinding::Require),
        };
        let negotiation = config.get_ssl_negotiation();
        client_config(provider, verifier, negotiation).map(MakeRustlsConnect::new)
    }

    fn resolve(&self) -> Result<(SslMode, Trust<'_>), String> {
        let default = if self.roots == Some(Roots::System) { Mode::VerifyFull } else { Mode::Prefer };
        let chain = |roots, host| Ok((SslMode::Require, Trust::Chain { roots, host }));
        match (self.mode.unwrap_or(default), &self.roots) {
            (Mode::Disable, _) => Ok((SslMode::Disable, Trust::Anyone)),
            (Mode::Prefer, None) => Ok((SslMode::Prefer, Trust::Anyone)),
            (Mode::Require, None) => Ok((SslMode::Require, Trust::Anyone)),
            (Mode::VerifyFull, roots) => chain(roots.as_ref().unwrap_or(&Roots::System), true),
            (Mode::Require | Mode::VerifyCa, Some(roots @ Roots::File(_))) => chain(roots, false),
            (Mode::Prefer, Some(Roots::File(_))) => {
                Err("sslrootcert protects nothing with sslmode=prefer, the default; use sslmode=verify-full"
                    .into())
            }
            (Mode::VerifyCa, None) => {
                Err("sslmode=verify-ca needs sslrootcert=FILE; or use sslmode=verify-full".into())
            }
            // Anybody can get a certificate from a public authority: without the host it shows nothing.
            (_, Some(Roots::System)) => {
                Err("sslrootcert=system needs sslmode=verify-full, or no sslmode".into())
            }
        }
    }
}

impl Mode {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            other => {
                Err(format!("sslmode is {other:?}; use disable, prefer, require, verify-ca or verify-full"))
            }
        }
    }
}

impl Roots {
    fn read(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let Self::File(path) = self else { return Ok(rustls_native_certs::load_native_certs().certs) };
        let fail = |why: String| format!("sslrootcert file {path:?}: {why}");
        let size = std::fs::metadata(path).map_err(|cause| fail(cause.to_string()))?.len();
        if size > MAX_ROOT_FILE {
            return Err(fail(format!("{size} bytes is too large; the limit is {MAX_ROOT_FILE}")));
        }
        let text = std::fs::read(path).map_err(|cause| fail(cause.to_string()))?;
        CertificateDer::pem_slice_iter(&text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|cause| fail(format!("is not a valid PEM file: {cause}")))
    }
}

/// The certificates as roots. A broken one in the user's own file is told; the system's may hold some
/// that rustls does not know.
fn store_of(given: &[CertificateDer<'static>], roots: &Roots) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            store.add_parsable_certificates(given.iter().cloned());
            if store.is_empty() {
                return Err("the system has no root certificates; install them (package \
                            ca-certificates) or give sslrootcert=FILE"
                    .into());
            }
        }
        Roots::File(path) => {
            for certificate in given {
                store
                    .add(certificate.clone())
                    .map_err(|cause| format!("sslrootcert file {path:?}: unusable certificate: {cause}"))?;
            }
            if store.is_empty() {
                return Err(format!("sslrootcert file {path:?}: holds no certificate in PEM form"));
            }
        }
    }
    Ok(store)
}

fn client_config(
    provider: Arc<CryptoProvider>,
    verifier: Verifier,
    negotiation: SslNegotiation,
) -> Result<ClientConfig, String> {
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| format!("cannot set up TLS: {cause}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    if negotiation == SslNegotiation::Direct {
        config.alpn_protocols = vec![b"postgresql".to_vec()]; // the server insists on it
    }
    Ok(config)
}

/// Whether every host is a unix socket, where the server never offers TLS.
fn is_local(config: &Config) -> bool {
    config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<TlsParameters, String> {
        let mut parameters = TlsParameters::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            assert!(parameters.take(key, value)?, "{key} is not taken");
        }
        Ok(parameters)
    }

    #[test]
    fn modes_mean_what_libpq_means() {
        let file = Roots::File("/a b.pem".into());
        let chain = |roots, host| (SslMode::Require, Trust::Chain { roots, host });
        for (query, expected) in [
            ("", (SslMode::Prefer, Trust::Anyone)),
            ("sslmode=disable", (SslMode::Disable, Trust::Anyone)),
            ("sslmode=disable&sslrootcert=system", (SslMode::Disable, Trust::Anyone)),
            ("sslmode=prefer", (SslMode::Prefer, Trust::Anyone)),
            ("sslmode=require", (SslMode::Require, Trust::Anyone)),
            ("sslmode=require&sslrootcert=/a%20b.pem", chain(&file, false)),
            ("sslmode=verify-ca&sslrootcert=/a%20b.pem", chain(&file, false)),
            ("sslmode=verify-full&sslrootcert=/a%20b.pem", chain(&file, true)),
            ("sslmode=verify-full", chain(&Roots::System, true)),
            ("sslrootcert=system", chain(&Roots::System, true)),
        ] {
            assert_eq!(read(query).unwrap().resolve().unwrap(), expected, "{query}");
        }
    }

    #[test]
    fn what_would_protect_nothing_is_refused() {
        for (query, says) in [
            ("sslmode=verify_full", "verify-full"),
            ("sslmode=", "verify-full"),
            ("sslmode=verify-ca", "sslrootcert=FILE"),
            ("sslrootcert=/a.pem", "sslmode=verify-full"),
            ("sslmode=prefer&sslrootcert=/a.pem", "sslmode=verify-full"),
            ("sslmode=require&sslrootcert=system", "sslmode=verify-full"),
            ("sslmode=verify-ca&sslrootcert=system", "sslmode=verify-full"),
            ("sslrootcert=%ff", "UTF-8"),
        ] {
            let error = read(query).and_then(|read| read.resolve().map(|_| ())).unwrap_err();
            assert!(error.contains(says), "{query}: {error}");
        }
    }

    #[test]
    fn unusable_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        for (name, content, says) in [
            ("none.pem", None, "No such file"),
            ("empty.pem", Some(""), "holds no certificate"),
            ("other.pem", Some("hello"), "holds no certificate"),
            ("cut.pem", Some(cut), "PEM"),
            ("broken.pem", Some(broken), "unusable certificate"),
        ] {
            let path = folder.path().join(name).display().to_string();
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let parameters = read(&format!("sslmode=verify-full&sslrootcert={path}")).unwrap();
            let mut config: Config = "postgres://h/d".parse().unwrap();
            let error = parameters.connector(&mut config).err().expect("is refused");
            assert!(error.contains(&path) && error.contains(says), "{error}");
        }
    }

    #[test]
    fn unix_sockets_never_use_tls() {
        let mode = |url: &str| {
            let mut config: Config = url.parse().unwrap();
            read("sslmode=require").unwrap().connector(&mut config).unwrap();
            config.get_ssl_mode()
        };
        assert_eq!(mode("postgres://%2Frun%2Fpostgresql/d"), SslMode::Disable);
        assert_eq!(mode("postgres://%2Frun%2Fpostgresql/d?hostaddr=127.0.0.1"), SslMode::Require);
        assert_eq!(mode("postgres://h/d"), SslMode::Require);
    }
}
