//! What keyed lanes cost, counted in statements and in steps of SQLite's virtual machine, and the plans of all those statements.

use crate::{
    control, edit,
    enqueue::Batch,
    key_limits, key_rates, key_upkeep, promote,
    traced::{Traced, Work},
    tx::Tx,
    workers,
};
use std::time::Duration;
use windlass_core::{
    Args, Completion, Disposition, Exception, JobEdit, JobId, JobSet, KeyLimit, KeyLimitsChange, NewJob,
    RateLimit, SettleRequest,
};

impl Traced {
    fn limit(&mut self, queue: &str, limit: KeyLimit) {
        self.run(|tx| key_limits::change(tx, queue, &KeyLimitsChange::Default(limit)));
    }

    /// Enqueues jobs of `keys` keys, `each` of them, in turn.
    fn add(&mut self, name: &str, keys: usize, each: usize) -> (Vec<JobId>, Work) {
        let job = |n: usize| {
            NewJob::new("test", Args::parse("{}").unwrap()).with_key(format!("{name}{}", n % keys))
        };
        let batch = Batch::pack(&(0..keys * each).map(job).collect::<Vec<_>>());
        self.run(|tx| batch.append(tx))
    }

    /// The steps of a claim of a hundred jobs and of its completion, when it is not the first.
    fn cost(&mut self, jobs: usize) -> i64 {
        let mut last = 0;
        for _ in 0..2 {
            let (claims, claimed) = self.claim(100);
            assert_eq!(claims.iter().map(|claim| claim.jobs.len()).sum::<usize>(), jobs);
            last = claimed.steps + self.complete(&claims).steps;
        }
        last
    }
}

/// So many in an hour.
fn rate(count: u32) -> KeyLimit {
    KeyLimit::default().with_rate(RateLimit::new(count, Duration::from_secs(3600)))
}

/// Of a store with so many keys and jobs: the cost of a claim, with its completion.
fn cost_of(limit: KeyLimit, fill: impl FnOnce(&mut Traced), jobs: usize) -> i64 {
    let mut store = Traced::new();
    store.limit("default", limit);
    fill(&mut store);
    store.cost(jobs)
}

#[test]
fn a_claim_costs_the_same_whatever_waits() {
    let kinds = [
        (KeyLimit::default(), "weights", 100),
        (KeyLimit::default().with_concurrency(2), "limits", 100),
        (KeyLimit::serial(), "serial", 100),
        (rate(2), "rate", 100),
    ];
    for (limit, what, jobs) in kinds {
        let few = cost_of(limit, |store| drop(store.add("k", 300, 3)), jobs);
        let deep = |store: &mut Traced| {
            store.add("deep", 1, 100_000);
            store.add("k", 300, 3);
        };
        let deep = cost_of(limit, deep, jobs);
        let wide = cost_of(limit, |store| drop(store.add("k", 20_000, 3)), jobs);
        // Whoever is at its limit is not looked at again.
        let full = |store: &mut Traced| {
            store.add("full", 5_000, 3);
            while !store.claim(5_000).0.is_empty() && what != "weights" {}
            store.add("k", 300, 3);
        };
        let full = if what == "weights" { few } else { cost_of(limit, full, jobs) };
        for (name, cost) in [("deep", deep), ("wide", wide), ("full", full)] {
            assert!(cost * 10 < few * 11, "{what}: {few} steps with few jobs, {cost} in a {name} store");
        }
    }
}

#[test]
fn an_enqueue_costs_the_same_whatever_waits() {
    let mut store = Traced::new();
    store.limit("default", KeyLimit::default().with_concurrency(2));
    store.add("first", 10, 1);
    let few = store.add("k", 100, 1).1.steps;
    store.add("deep", 1, 50_000);
    store.add("wide", 20_000, 1);
    let many = store.add("l", 100, 1).1.steps;
    assert!(many * 10 < few * 11, "{few} steps for a hundred jobs, then {many}");
}

/// A completion finds the rows of its keys. Of a change of limits one row of each key is read, not each of those that say until when its jobs
/// count.
#[test]
fn what_ended_costs_nothing_later() {
    let cost = |rows: i64, key: &str| {
        let mut store = Traced::new();
        store.limit("default", rate(2));
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows})
                INSERT INTO key_ended SELECT queue.id, {key}, 1000000000 + n, 1 FROM queue, n;
            INSERT INTO key_ended_count SELECT queue, key, sum(jobs) FROM key_ended GROUP BY queue, key"
        );
        store.conn.execute_batch(&fill).unwrap();
        store.add("k", 300, 2);
        let claim = store.cost(100);
        let change = |tx: &mut Tx<'_>| key_limits::change(tx, "default", &KeyLimitsChange::Default(rate(3)));
        (claim, store.run(change).1.steps)
    };
    let (few, of_one, of_many) = (cost(1, "'a'"), cost(10_000, "'a'"), cost(10_000, "'a' || n"));
    for (few, many) in [(few.0, of_one.0), (few.0, of_many.0), (few.1, of_one.1)] {
        assert!(many * 10 < few * 11, "{few} steps with one row, {many} with ten thousand");
    }
}

/// What is past is taken out of the counts of its own keys, whatever number of others counts on.
#[test]
fn what_is_past_costs_the_same_whatever_counts_on() {
    let cost = |others: i64| {
        let mut store = Traced::new();
        store.limit("default", rate(2));
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100 + {others})
                INSERT INTO key_ended SELECT queue.id, 'a' || n, CASE WHEN n > 100 THEN 1000000000 ELSE 0 END + n, 1 FROM queue, n;
            INSERT INTO key_ended_count SELECT queue, key, jobs FROM key_ended"
        );
        store.conn.execute_batch(&fill).unwrap();
        let queue =
            store.conn.query_one("SELECT queue FROM key_ended LIMIT 1", [], |row| row.get(0)).unwrap();
        let (_, work) = store.run(|tx| key_rates::forget_past(tx.conn, queue, tx.now, key_rates::CHUNK));
        let left = "SELECT count(*), sum(jobs) FROM key_ended_count";
        let left = store.conn.query_one(left, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(left, (others, others));
        work.steps
    };
    let (few, many) = (cost(1), cost(10_000));
    assert!(many * 10 < few * 11, "{few} steps beside one key, {many} beside ten thousand");
}

/// Where none of them may have a job it looks at no more of them than of those that may.
#[test]
fn a_claim_looks_at_so_many_keys() {
    let mut store = Traced::new();
    store.limit("default", rate(1));
    store.add("k", 20_000, 2);
    while !store.claim(5_000).0.is_empty() {}
    store.limit("default", rate(1).with_weight(2));
    let mut look = || {
        assert!(store.claim(5_000).0.is_empty());
        let left = "SELECT count(*) FROM key_turn WHERE state = 0";
        store.conn.query_one(left, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let left = look();
    assert!((14_000..=15_000).contains(&left), "{left}");
    assert_eq!([look(), look(), look()][2], 0);
}

/// Others wait meanwhile.
#[test]
fn keys_whose_rate_allows_more_go_on_in_parts() {
    let mut store = Traced::new();
    store.limit("default", rate(2));
    store.add("k", 1, 1);
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)
        INSERT INTO key_turn (n, key, vt, state, due) SELECT keyed_lane.n, 'a' || n.n, 0, 1, 1 FROM keyed_lane, n";
    store.conn.execute_batch(fill).unwrap();
    let mut part = || store.run(|tx| promote::promote(tx, 10)).0.next_due;
    assert_eq!([part(), part(), part()], [Some(Duration::ZERO), Some(Duration::ZERO), None]);
}

/// The number of statements does not follow from the number of jobs, nor from that of keys.
#[test]
fn a_claim_of_any_size_is_a_few_statements() {
    for limit in [KeyLimit::default(), KeyLimit::default().with_concurrency(3), KeyLimit::serial(), rate(3)] {
        let mut store = Traced::new();
        store.limit("default", limit);
        store.add("k", 3_000, 2);
        let (claims, work) = store.claim(3_000);
        assert_eq!(claims[0].jobs.len(), 3_000);
        assert!(work.statements.len() <= 26, "{:#?}", work.statements);
        let settled = store.complete(&claims).statements;
        assert!(settled.len() <= 14, "{settled:#?}");
        let added = store.add("l", 3_000, 1).1.statements.len();
        assert!(added <= 3_000 + 8, "{added} statements for 3000 jobs");
    }
}

/// Whatever happens to keyed jobs, no statement reads a table that grows from end to end.
#[test]
fn every_statement_finds_its_rows() {
    let mut store = Traced::new();
    store.limit("default", KeyLimit::serial().with_rate(RateLimit::new(2, Duration::from_millis(500))));
    // A change of limits counts what is held, whatever that is.
    store.all.clear();
    store.add("k", 20, 5);
    let (claims, _) = store.claim(10);
    let claim = &claims[0];
    let exception = |nth: usize, disposition| Exception {
        claim: claim.reference,
        job: claim.jobs[nth].id,
        position: claim.jobs[nth].position,
        disposition,
    };
    let delay = Duration::from_secs(60);
    let exceptions = vec![
        exception(0, Disposition::Retry { delay, error: "no".into() }),
        exception(1, Disposition::Snooze { delay }),
        exception(2, Disposition::Return),
        exception(3, Disposition::NoHandler),
        exception(4, Disposition::Cancel { reason: "no".into() }),
        exception(5, Disposition::Complete { result: None }),
    ];
    let ranges = JobSet::Ranges(vec![(claim.jobs[6].id.0, claim.jobs[6].id.0)]);
    let completions = vec![Completion { claim: claim.reference, jobs: ranges, count: 1 }];
    let request = SettleRequest { worker: store.worker, completions, exceptions };
    store.settle(&request);
    let ids: Vec<_> = claim.jobs.iter().map(|job| job.id).collect();
    store.run(|tx| control::retry(tx, ids[0]));
    store.run(|tx| promote::promote(tx, 10));
    ids[1..3].iter().for_each(|id| drop(store.run(|tx| control::cancel(tx, *id))));
    store.run(|tx| edit::edit(tx, ids[3], &JobEdit::new().with_priority(3)));
    let (more, _) = store.add("l", 3, 1);
    store.run(|tx| edit::edit(tx, more[0], &JobEdit::new().with_priority(3)));
    store.run(|tx| edit::delete(tx, more[1]));
    let (claims, _) = store.claim(10);
    store.complete(&claims);
    let worker = store.worker;
    store.run(|tx| workers::deregister(tx, worker));
    store.run(|tx| {
        tx.now += 1_000_000;
        promote::promote(tx, 10)
    });
    store.run(|tx| promote::next_due(tx.conn, tx.now));
    store.run(key_upkeep::keep);
    let small = [
        "k VIRTUAL",
        "p VIRTUAL",
        "json_each VIRTUAL",
        "own VIRTUAL",
        "lane",
        "l",
        "queue",
        "keyed_lane",
        "lanes",
        "log_state",
        "setting",
        "leader",
        "CONSTANT",
        // One row.
        "c",
    ];
    let is_small = |scan: &str| small.iter().any(|table| scan.starts_with(&format!("SCAN {table} ")));
    let large: Vec<_> = store.scans().into_iter().filter(|scan| !is_small(scan)).collect();
    assert!(store.all.len() > 60 && large.is_empty(), "{large:#?}");
}

/// The statements of enqueues, claims and completions where no queue, or another one, has limits of keys: those of version 10, and one with which a claim reads jobs that
/// have a key.
#[test]
fn a_queue_without_limits_of_keys_pays_nothing() {
    for other in [false, true] {
        let mut store = Traced::new();
        if other {
            store.limit("other", KeyLimit::serial());
        }
        store.add("k", 2, 1);
        let added = store.add("k", 3, 1).1.statements;
        let (claims, claimed) = store.claim(2);
        let settled = store.complete(&claims).statements;
        let counts = [added.len(), claimed.statements.len(), settled.len()];
        assert_eq!(counts, [6, 9, 6], "{added:#?} {claimed:#?} {settled:#?}");
        let all: Vec<_> = [added, claimed.statements, settled].concat();
        for table in [
            "keyed_job",
            "keyed_lane",
            "key_turn",
            "key_held",
            "key_limit",
            "key_blocker",
            "held_job",
            "key_ended",
        ] {
            assert!(!all.iter().any(|sql| sql.contains(table)), "{table}: {all:#?}");
        }
    }
}
