//! The jobs of these tests.

use serde::{Deserialize, Serialize};
use windlass::{Client, Job, Outcome};

#[derive(Serialize, Deserialize, Job, Debug)]
#[job(kind = "mail.send", queue = "mail", max_attempts = 3)]
pub(crate) struct SendMail {
    pub(crate) to: String,
}

#[derive(Serialize, Deserialize, Job, Debug)]
pub(crate) enum CleanUp {
    All,
    Older { days: u32 },
}

#[derive(Serialize, Deserialize, Job, Debug)]
pub(crate) struct Number(pub(crate) u32);

pub(crate) fn mail(to: &str) -> SendMail {
    SendMail { to: to.into() }
}

/// Completes, fails or panics, as its address says.
pub(crate) async fn send_mail(mail: SendMail) -> Result<Outcome, String> {
    match mail.to.as_str() {
        "nobody" => Err("no such address".into()),
        "panic" => panic!("no route"),
        "later" => Ok(Outcome::Snooze(std::time::Duration::ZERO)),
        "never" => Ok(Outcome::Cancel("unwanted".into())),
        to => Ok(Outcome::complete_with(to)),
    }
}

/// The panic of a test that should fail.
pub(crate) async fn panic_of(test: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(test).await.unwrap_err().into_panic();
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap()
}

/// A client of a SQLite file.
pub(crate) async fn sqlite(dir: &tempfile::TempDir) -> Client {
    let client = Client::connect(&format!("sqlite:{}", dir.path().join("jobs.db").display())).await.unwrap();
    client.migrate().await.unwrap();
    client
}
