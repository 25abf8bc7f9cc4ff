//! What commands change goes into the audit log of the store, after the change. Where it cannot be written, a warning says so.

use crate::globals::Globals;
use windlass::{AuditEntry, Client, Error};

impl Globals {
    /// Who acts: what `--as` says, or the user of this machine.
    pub(crate) fn actor(&self) -> String {
        self.actor.clone().filter(|actor| !actor.is_empty()).unwrap_or_else(user_at_host)
    }

    /// An entry of the audit log for something that was done.
    pub(crate) fn entry(&self, action: &str, target: &str) -> AuditEntry {
        AuditEntry::new(self.actor(), action, target).with_via("cli")
    }

    /// Notes how a change ended, and hands its answer on. What failed for certain changed nothing and is not noted.
    pub(crate) async fn did<T>(
        &self,
        client: &Client,
        action: &str,
        target: &str,
        done: Result<T, Error>,
    ) -> Result<T, Error> {
        self.noted(client, self.entry(action, target), done, |_| None).await
    }

    /// The same, with what else there is to say of it, and how many jobs it touched.
    pub(crate) async fn noted<T>(
        &self,
        client: &Client,
        mut entry: AuditEntry,
        done: Result<T, Error>,
        count: impl FnOnce(&T) -> Option<u64>,
    ) -> Result<T, Error> {
        if let Ok(answer) = &done {
            entry.count = count(answer).or(entry.count);
        }
        if let Some(entry) = entry.ended(&done) {
            client.append_audit_or_warn(&[entry]).await;
        }
        done
    }
}

fn user_at_host() -> String {
    let named = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    let user = named("USER").or_else(|| named("LOGNAME"));
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    let system = rustix::system::uname();
    format!("{user}@{}", system.nodename().to_string_lossy())
}
