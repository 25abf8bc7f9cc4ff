//! Connections over TLS, to a cluster of the test's own with certificates of its own.

use crate::cluster::{connect, fresh_schema};
use crate::own_cluster::OwnCluster;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use windlass_conformance::steps::{eventually, job, worker_on};
use windlass_core::{ErrorKind, JobStore, Store};
use windlass_postgres::{PostgresOptions, PostgresStore};

/// One role may log in only without TLS, one only by its password when over TLS.
const LOGINS: &str = "
hostssl all only_plain    all reject
hostssl all with_password all scram-sha-256
host    all all           all trust
local   all all               trust
";

/// A cluster with `ssl = on` whose certificate is made out to `localhost`.
struct Secured {
    cluster: OwnCluster,
    folder: tempfile::TempDir,
    port: String,
}

impl Secured {
    async fn start() -> Self {
        let cluster = OwnCluster::start();
        let folder = tempfile::tempdir().unwrap();
        let (root, right) = authority();
        std::fs::write(folder.path().join("right.pem"), root).unwrap();
        std::fs::write(folder.path().join("wrong.pem"), authority().0).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &right).unwrap();

        let admin = connect(&cluster.url).await;
        // The server writes the files itself, into its data folder: it reads only a key that is its own.
        let files = [
            ("server.key", &*key.serialize_pem()),
            ("server.crt", &certificate.pem()),
            ("pg_hba.conf", LOGINS),
        ];
        for (file, content) in files {
            let copy = format!(
                "COPY (SELECT unnest(string_to_array('{content}', E'\\n'))) TO PROGRAM 'cat > {file} && chmod 600 {file}'"
            );
            admin.batch_execute(&copy).await.unwrap();
        }
        for statement in [
            "CREATE ROLE only_plain SUPERUSER LOGIN",
            "SET password_encryption = 'scram-sha-256'", // PostgreSQL 13 makes MD5, which binds no channel
            "CREATE ROLE with_password SUPERUSER LOGIN PASSWORD 'pass'",
            "ALTER SYSTEM SET ssl = on",
            "SELECT pg_reload_conf()",
        ] {
            admin.batch_execute(statement).await.unwrap();
        }
        let port = cluster.url.rsplit([':', '/']).nth(1).expect("the URL names a port").to_owned();
        let secured = Self { cluster, folder, port };
        eventually("the server offers TLS", || async {
            secured.connect("postgres", "localhost", "sslmode=require").await.ok().map(drop)
        })
        .await;
        secured
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn url(&self, user: &str, host: &str, parameters: &str) -> String {
        format!("postgres://{user}@{host}:{}/postgres?hostaddr=127.0.0.1&schema=tls&{parameters}", self.port)
    }

    async fn connect(
        &self,
        user: &str,
        host: &str,
        parameters: &str,
    ) -> windlass_core::Result<PostgresStore> {
        PostgresStore::connect(&self.url(user, host, parameters), PostgresOptions::default()).await
    }

    async fn refused(&self, host: &str, parameters: &str) -> String {
        let error = self.connect("postgres", host, parameters).await.err().expect("is refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        error.to_string()
    }

    /// How many connections of `user`'s stores there are: encrypted, and not.
    async fn connections(&self, user: &str) -> (i64, i64) {
        let admin = connect(&self.cluster.url).await;
        let count = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
                     FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE application_name = 'windlass' AND usename = $1";
        let row = admin.query_one(count, &[&user]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

/// A certificate authority: its certificate as PEM, and what it signs with.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "a test authority"); // both have the same name
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_works_over_tls_with_all_its_connections() {
    let secured = Secured::start().await;
    let verified = format!("sslmode=verify-full&sslrootcert={}", secured.file("right.pem"));
    let bound = "sslmode=require&channel_binding=require";
    for (user, parameters) in
        [("postgres", "sslmode=require"), ("postgres", &verified), ("with_password:pass", bound)]
    {
        let user_name = user.split(':').next().unwrap_or(user);
        let store = secured.connect(user, "localhost", parameters).await.expect(parameters);
        store.migrate().await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let ids = store.enqueue(&[job(), job()]).await.unwrap();
        let wakeup = store.wakeup();
        let worker = worker_on(&store).await;
        assert_eq!(worker.drain(10).await, ids, "{parameters}");
        eventually("the LISTEN connection is encrypted too", || async {
            let admin = connect(&secured.cluster.url).await;
            let listening = "SELECT FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                             WHERE ssl AND query LIKE '%LISTEN%' AND usename = $1";
            (!admin.query(listening, &[&user_name]).await.unwrap().is_empty()).then_some(())
        })
        .await;
        let (encrypted, plain) = secured.connections(user_name).await;
        assert!(encrypted >= 3 && plain == 0, "{parameters}: {encrypted} encrypted, {plain} plain");
        drop((wakeup, worker, store));
        eventually("the store's connections end", || async {
            (secured.connections(user_name).await == (0, 0)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_verified_as_far_as_asked() {
    let secured = Secured::start().await;
    let (right, wrong) = (secured.file("right.pem"), secured.file("wrong.pem"));
    for (host, parameters) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={right}")),
        ("db.example", format!("sslmode=verify-ca&sslrootcert={right}")),
        ("db.example", format!("sslmode=require&sslrootcert={right}")),
        ("db.example", "sslmode=require".to_owned()),
    ] {
        let _store = secured.connect("postgres", host, &parameters).await.expect(&parameters);
    }
    for mode in ["verify-full", "verify-ca", "require"] {
        let error = secured.refused("localhost", &format!("sslmode={mode}&sslrootcert={wrong}")).await;
        assert!(error.contains("certificate") && error.contains("check"), "{mode}: {error}");
    }
    let error = secured.refused("localhost", "sslmode=verify-full").await; // the system does not know it
    assert!(error.contains("UnknownIssuer") && error.contains("sslrootcert"), "{error}");
    for host in ["db.example", "127.0.0.1"] {
        let error = secured.refused(host, &format!("sslmode=verify-full&sslrootcert={right}")).await;
        assert!(error.contains(host) && error.contains("localhost"), "names both: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefer_takes_what_it_can_get() {
    let secured = Secured::start().await;
    for (user, parameters, expected) in [
        ("postgres", "", (1, 0)),
        ("postgres", "sslmode=prefer", (1, 0)),
        ("postgres", "sslmode=disable", (0, 1)),
        ("only_plain", "sslmode=prefer", (0, 1)),
    ] {
        let store = secured.connect(user, "127.0.0.1", parameters).await.expect(parameters);
        assert_eq!(secured.connections(user).await, expected, "{user} {parameters}");
        drop(store);
        eventually("the connection ends", || async {
            (secured.connections(user).await == (0, 0)).then_some(())
        })
        .await;
    }
    let error =
        secured.connect("only_plain", "127.0.0.1", "sslmode=require").await.err().expect("is refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");

    let admin = connect(&secured.cluster.url).await;
    let row = admin.query_one("SHOW unix_socket_directories", &[]).await.unwrap();
    let socket = row.get::<_, String>(0).replace('/', "%2F");
    let url = format!("postgres://postgres@{socket}:{}/postgres?sslmode=require", secured.port);
    let _store = PostgresStore::connect(&url, PostgresOptions::default()).await.expect("sockets need no TLS");
    assert_eq!(secured.connections("postgres").await, (0, 1));
}

#[tokio::test]
async fn a_server_without_tls_is_used_only_when_that_is_allowed() {
    let url = |parameters: &str| format!("{}?schema={}&{parameters}", crate::cluster::url(), fresh_schema());
    for parameters in ["", "sslmode=prefer", "sslmode=disable"] {
        let connected = PostgresStore::connect(&url(parameters), PostgresOptions::default()).await;
        assert!(connected.is_ok(), "{parameters}: {:?}", connected.err());
    }
    for mode in ["require", "verify-full"] {
        let url = url(&format!("sslmode={mode}"));
        let error = PostgresStore::connect(&url, PostgresOptions::default()).await.err().expect("is refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let text = error.to_string();
        assert!(text.contains("offers no TLS") && text.contains("127.0.0.1:"), "{text}");
    }
}
