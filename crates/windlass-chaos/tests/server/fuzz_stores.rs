//! Every args value that is accepted is kept by PostgreSQL and SQLite byte for byte.
//! Run it by `make test`, or `scripts/with-postgres cargo test -p windlass-chaos --test server fuzz_stores`.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngSeed, TestRunner},
};
use windlass_core::{Args, JobFilter, JobStore, NewJob};
use windlass_postgres::{PostgresOptions, PostgresStore};
use windlass_sqlite::{SqliteOptions, SqliteStore};

/// How many values go through both stores, in one batch, and as single jobs.
const VALUES: usize = 600;
const SINGLES: usize = 40;
const SEED: u64 = 20_260_101;

/// Valid JSON as strangers write it: odd spaces, numbers, escapes and nesting.
fn json() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec![
        "a",
        "ä",
        "😀",
        "\u{2028}",
        "\u{feff}",
        "\\n",
        "\\/",
        "\\\\",
        "\\\"",
        "\\u0001",
        "\\\\u0000",
        "\\ud83d\\ude00",
        "\\uffff",
        "\\ud83d\\ude00",
        "\\u00e4",
        "\u{7f}",
        "\u{9b}",
        "[[[",
        "'",
        "$1",
        "--",
        "\u{10ffff}",
        "\\ud800\\udc00",
    ]);
    let string = prop::collection::vec(text, 0..8).prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = prop::sample::select(vec![
        "0",
        "-0",
        "-0.0",
        "1e308",
        "-1E+300",
        "1e-400",
        "9007199254740993",
        "18446744073709551616",
        "0.10",
        "1.0e0",
        "1e-131073",
        "123456789012345678901234567890.123456789012345678901234567890",
    ]);
    let word = prop::sample::select(vec!["null", "true", "false", "{}", "[]", "{ }", "[\t]"]);
    let leaf = prop_oneof![string.clone(), number.prop_map(str::to_owned), word.prop_map(str::to_owned)];
    let space = || prop::sample::select(vec!["", "", " ", "\n", "\r\n\t"]);
    leaf.prop_recursive(6, 40, 5, move |inner| {
        let list = (prop::collection::vec(inner.clone(), 0..5), space())
            .prop_map(|(all, space)| format!("[{space}{}{space}]", all.join(&format!("{space},"))));
        let pair =
            (string.clone(), inner, space()).prop_map(|(key, value, space)| format!("{key}{space}:{value}"));
        // Keys may come twice: that is JSON, and it stays so.
        let object = (prop::collection::vec(pair, 0..5), space())
            .prop_map(|(all, space)| format!("{{{space}{}{space}}}", all.join(&format!(",{space}"))));
        prop_oneof![list, object]
    })
}

fn values() -> Vec<String> {
    println!("seed {SEED}");
    let config = Config { rng_seed: RngSeed::Fixed(SEED), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let strategy = json();
    let mut values: Vec<String> =
        (0..VALUES).map(|_| strategy.new_tree(&mut runner).expect("generates").current()).collect();
    values.push(format!("{}-0{}", "[".repeat(64), "]".repeat(64)));
    values.push(format!("\"{}\"", "x".repeat(1024 * 1024 - 2)));
    values.push(format!("0.{}1", "0".repeat(200_000)));
    values.push(format!("1e-{}", "9".repeat(1_000)));
    values
}

async fn keeps(store: &dyn JobStore, name: &str) {
    let values = values();
    let job = |value: &String| {
        let args = Args::parse(value).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(args.as_str(), value);
        NewJob::new("k", args)
    };
    let mut ids = store.enqueue(&values.iter().map(job).collect::<Vec<_>>()).await.expect("enqueues");
    let mut expected = values.clone();
    for value in values.iter().take(SINGLES) {
        ids.extend(store.enqueue(&[job(value)]).await.expect("enqueues one"));
        let held = job(value).with_delay(std::time::Duration::from_secs(3_600));
        ids.extend(store.enqueue(&[held]).await.expect("enqueues a later one"));
        expected.extend([value.clone(), value.clone()]);
    }
    for (id, value) in ids.iter().zip(&expected) {
        let kept = store.job(*id).await.expect("reads").expect("is stored");
        assert!(kept.args.as_str() == value, "{name} made {} of {value}", kept.args.as_str());
    }
    assert!(!store.jobs(&JobFilter::default()).await.expect("lists").is_empty());
    store.close().await;
}

#[tokio::test]
async fn sqlite_keeps_args_byte_for_byte() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let store = SqliteStore::open(&url, SqliteOptions::default()).expect("opens");
    store.migrate().await.expect("migrates");
    keeps(&store, "SQLite").await;
}

#[tokio::test]
async fn postgres_keeps_args_byte_for_byte() {
    let server = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test`, or this under scripts/with-postgres");
    for (schema, parameters) in [("fuzz_direct", ""), ("fuzz_pooler", "&pooler=transaction")] {
        let url = format!("{server}?schema={schema}{parameters}");
        let store = PostgresStore::connect(&url, PostgresOptions::default()).await.expect("connects");
        store.migrate().await.expect("migrates");
        keeps(&store, "PostgreSQL").await;
    }
}
