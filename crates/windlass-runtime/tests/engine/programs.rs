//! A worker says what it runs when it registers, and with its heartbeats what it uses and how much it gets done.

use crate::fake::{FakeStore, Handlers, config};
use std::sync::Arc;
use tokio::time::sleep;
use windlass_core::{JobStore, Program, WorkerRecord};
use windlass_runtime::{WorkerConfig, WorkerEngine};

async fn listed(store: &FakeStore) -> WorkerRecord {
    store.status().await.unwrap().workers.remove(0)
}

#[tokio::test(start_paused = true)]
async fn it_is_listed_with_them() {
    let store = FakeStore::new();
    let program = Program { app_version: Some("2.4.1".to_owned()), ..WorkerConfig::default().program };
    let config = WorkerConfig { program: program.clone(), ..config(2) };
    let lease = config.lease;
    let handlers = Handlers::default().on("noop", |_| async {});
    let engine = WorkerEngine::start(Arc::new(store.seen_by(0)), config, Arc::new(handlers)).await.unwrap();
    let first = listed(&store).await;
    assert_eq!((&first.program, first.load.jobs_per_second), (&program, None));
    assert!(program.name.is_some_and(|name| name.starts_with("engine")), "the file of this test");
    assert_eq!(program.engine.as_deref(), Some(concat!("Rust ", env!("CARGO_PKG_VERSION"))));
    store.add("q", "noop", 30);
    store.until("all done", |model| model.all_completed()).await;
    sleep(lease / 2).await;
    let load = listed(&store).await.load;
    assert!(load.jobs_per_second.is_some_and(|rate| rate > 0.0 && rate <= 30.0), "{load:?}");
    assert_eq!(load.memory_bytes.is_some_and(|bytes| bytes > 1 << 20), cfg!(target_os = "linux"), "{load:?}");
    sleep(lease).await;
    assert_eq!(listed(&store).await.load.jobs_per_second, Some(0.0));
    engine.shutdown().await;
}

#[tokio::test]
async fn what_nobody_could_show_is_refused_at_the_start() {
    let program = Program { app_version: Some("2.4\n".to_owned()), ..Program::default() };
    let config = WorkerConfig { program, ..config(1) };
    let store = Arc::new(FakeStore::new().seen_by(0));
    let refused = WorkerEngine::start(store, config, Arc::new(Handlers::default())).await.err().unwrap();
    assert!(refused.is_invalid_input() && refused.to_string().contains("app_version"), "{refused}");
}
