use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::sync::Arc;

/// Decides whether the server's certificate is good enough for the `sslmode` of the store URL.
#[derive(Debug)]
pub(crate) struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    trust: Trust,
}

#[derive(Debug)]
enum Trust {
    /// Any certificate. `bound`: the login will show that the server is the right one, by its
    /// certificate (channel_binding=require), so the server must prove that the certificate is its own.
    Anyone { bound: bool },
    /// A chain to one of the roots; `host`: made out to the host.
    Chain { webpki: Arc<WebPkiServerVerifier>, given: Vec<CertificateDer<'static>>, host: bool },
}

impl Verifier {
    pub(crate) fn anyone(provider: &CryptoProvider, bound: bool) -> Self {
        Self { algorithms: provider.signature_verification_algorithms, trust: Trust::Anyone { bound } }
    }

    /// `given` are the certificates that `roots` was made of.
    ///
    /// # Errors
    /// When `roots` is empty.
    pub(crate) fn chain(
        provider: &Arc<CryptoProvider>,
        roots: RootCertStore,
        given: Vec<CertificateDer<'static>>,
        host: bool,
    ) -> Result<Self, String> {
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|cause| format!("cannot verify certificates: {cause}"))?;
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { algorithms, trust: Trust::Chain { webpki, given, host } })
    }

    /// A certificate in a form that only OpenSSL reads (X.509 version 1, which older instructions for
    /// PostgreSQL made) still encrypts, where nobody asks whose it is.
    fn need_not_be_signed(&self, certificate: &CertificateDer<'_>) -> bool {
        matches!(self.trust, Trust::Anyone { bound: false })
            && ParsedCertificate::try_from(certificate).is_err()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Chain { webpki, given, host } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let name = || verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name);
        let verified =
            match webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                // The usual self-signed certificate calls itself an authority, which webpki does not take
                // from a server. This very one was given as trusted; its dates were checked before.
                Err(Error::InvalidCertificate(CertificateError::Other(_)))
                    if given.iter().any(|one| one == end_entity) =>
                {
                    name()
                }
                verified => verified.map(drop),
            };
        match verified {
            // The name is checked last: the chain is good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !host => Ok(ServerCertVerified::assertion()),
            verified => verified.map(|()| ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.need_not_be_signed(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.need_not_be_signed(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use std::time::Duration;

    /// Made out to `localhost` for 2024 and 2025; calls itself an authority, as `openssl req -x509` does.
    fn self_signed() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2024, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    fn verify(
        trusted: &CertificateDer<'static>,
        shown: &CertificateDer<'_>,
        name: &str,
        year: u64,
        host: bool,
    ) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let verifier = Verifier::chain(&provider, roots, vec![trusted.clone()], host).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600 + 86_400 * 30));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        match verifier.verify_server_cert(shown, &[], &name, &[], now) {
            Ok(_) => "good".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_self_signed_certificate_may_be_its_own_root() {
        let (own, other) = (self_signed(), self_signed());
        assert_eq!(verify(&own, &own, "localhost", 2025, true), "good");
        assert_eq!(verify(&own, &own, "other", 2025, false), "good");
        for (refused, says) in [
            (verify(&own, &own, "other", 2025, true), "not valid for name"),
            (verify(&own, &own, "localhost", 2027, true), "expired"),
            (verify(&own, &own, "localhost", 2027, false), "expired"),
            (verify(&own, &own, "localhost", 2020, true), "not valid yet"),
            (verify(&own, &other, "localhost", 2025, true), "invalid peer certificate"),
            (verify(&own, &other, "localhost", 2025, false), "invalid peer certificate"),
        ] {
            assert!(refused.contains(says), "{refused}");
        }
    }
}
