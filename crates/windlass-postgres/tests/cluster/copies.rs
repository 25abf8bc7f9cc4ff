//! Databases that are copies of one that was migrated once. Each goes when the thread of its test has ended, and with it all
//! who were connected.

use super::{connect, url};
use std::{
    cell::RefCell,
    mem::take,
    sync::{Mutex, PoisonError},
};
use tokio::sync::OnceCell;
use windlass_core::JobStore;
use windlass_postgres::{PostgresOptions, PostgresStore};

/// The schema in each of them. Not the default one: a name that is written out somewhere shows.
pub(super) const SCHEMA: &str = "copied";

/// The databases whose tests have ended.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The databases of this thread's test.
struct Made(RefCell<Vec<String>>);

thread_local! {
    static MADE: Made = const { Made(RefCell::new(Vec::new())) };
}

impl Drop for Made {
    fn drop(&mut self) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).append(self.0.get_mut());
    }
}

/// The URL of a new database of that name.
pub(super) async fn make(name: &str) -> String {
    let admin = connect(&url()).await;
    let left = take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    for database in left {
        admin.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.expect("drops a copy");
    }
    let template = template(&admin).await;
    admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await.expect("copies");
    MADE.with(|made| made.0.borrow_mut().push(name.to_owned()));
    at(name)
}

/// The database that is copied.
async fn template(admin: &tokio_postgres::Client) -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    TEMPLATE
        .get_or_init(|| async {
            let name = format!("template_{}", std::process::id());
            admin.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("makes a database");
            let store = format!("{}?schema={SCHEMA}", at(&name));
            let store = PostgresStore::connect(&store, PostgresOptions::default()).await.expect("connects");
            store.migrate().await.expect("migrates");
            store.close().await;
            name
        })
        .await
}

fn at(database: &str) -> String {
    let url = url();
    format!("{}/{database}", url.rsplit_once('/').expect("the URL names a database").0)
}
