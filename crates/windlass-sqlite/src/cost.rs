//! What it costs to find something among much else, counted in steps of SQLite's virtual machine.

use crate::{
    claim, control, edit,
    enqueue::Batch,
    events, fold, key_limits, key_upkeep, list, locate,
    maintain::{self, Chunk},
    promote, record, retention, stats,
    traced::{Traced, any_worker},
    workers,
};
use std::time::Duration;
use windlass_core::{
    Args, ClaimRequest, ClaimedJob, Disposition, EventCursor, EventRequest, Exception, JobFilter, JobId,
    JobSet, JobState, KeyLimit, KeyLimitsChange, NewJob, QueueDemand, QueueFilter, RateLimit, RetentionRule,
    Settings, SettleRequest, WorkerSpec,
};

const HOUR: i64 = 3_600_000_000;

fn job(queue: &str) -> NewJob {
    NewJob::new("test", Args::parse("{}").unwrap()).with_queue(queue.to_owned())
}

fn of_kind(kind: &'static str) -> NewJob {
    NewJob::new(kind, Args::parse("{}").unwrap())
}

/// For in an hour.
fn later(queue: &str) -> NewJob {
    job(queue).with_delay(Duration::from_secs(3_600))
}

pub(crate) fn add(store: &mut Traced, jobs: &[NewJob]) -> Vec<JobId> {
    let batch = Batch::pack(jobs);
    store.run(|tx| batch.append(tx)).0
}

/// Jobs of so many queues, in turn.
pub(crate) fn mixed(queues: usize, jobs: usize) -> Vec<NewJob> {
    (0..jobs).map(|n| job(&format!("queue{}", n % queues))).collect()
}

pub(crate) fn assert_alike(what: &str, few: i64, many: i64) {
    assert!(
        many * 10 < few * 12,
        "{what}: {few} steps where there is little else, {many} where there is much"
    );
}

#[test]
fn a_job_is_found_by_its_id_among_any_number_of_queues() {
    let cost = |queues| {
        let mut store = Traced::new();
        let ids = add(&mut store, &mixed(queues, 4_000));
        store.run(|tx| edit::delete(tx, ids[5]));
        let unknown = JobId(ids[3_999].0 + 1_000);
        let looks = [ids[0], ids[5], ids[2_000], ids[3_999], unknown].map(|id| {
            let (place, work) = store.run(|tx| locate::find(tx, id));
            assert_eq!(place.is_some(), id != ids[5] && id != unknown);
            work.steps
        });
        let (ended, by_reader) = store.run(|tx| record::ended(tx.conn, &[unknown]));
        assert_eq!(ended.unknown, [unknown]);
        looks.into_iter().chain([by_reader.steps])
    };
    for (few, many) in cost(2).zip(cost(2_000)) {
        assert_alike("a job", few, many);
    }
}

/// Who waits for jobs looks again and again, of large ones as of small ones.
#[test]
fn of_jobs_that_have_not_ended_only_their_states_are_read() {
    let mut store = Traced::new();
    let dead = add(&mut store, &[job("default")])[0];
    store.run(|tx| control::cancel(tx, dead));
    let held = add(&mut store, &[job("default")])[0];
    store.claim(1);
    let ids = [dead, held, add(&mut store, &[later("default")])[0], add(&mut store, &[job("other")])[0]];
    let wanted = [JobState::Cancelled, JobState::Running, JobState::Scheduled, JobState::Available];
    let (states, look) = store.run(|tx| record::states(tx.conn, &ids));
    assert_eq!(states, wanted.map(Some));
    let (ended, waits) = store.run(|tx| record::ended(tx.conn, &ids[1..]));
    assert!(ended.jobs.is_empty() && ended.unknown.is_empty());
    for sql in look.statements.into_iter().chain(waits.statements) {
        assert!(!sql.contains("args"), "{sql}");
    }
    assert_eq!(store.run(|tx| record::ended(tx.conn, &ids)).0.jobs[0].id, dead);
}

/// A hundred and twenty-eight changes of the queue are a statement.
#[test]
fn jobs_of_many_queues_are_enqueued_in_bulk_as_before() {
    let mut store = Traced::new();
    let batch = Batch::pack(&mixed(1_000, 1_000));
    store.run(|tx| batch.append(tx));
    let statements = store.run(|tx| batch.append(tx)).1.statements.len();
    assert!(
        statements < 2_000 + 16,
        "{statements} statements for a thousand jobs and the counts of as many queues"
    );
}

#[test]
fn a_page_of_events_costs_the_same_among_any_number_of_queues() {
    let cost = |queues| {
        let mut store = Traced::new();
        add(&mut store, &mixed(queues, 8_000));
        [EventCursor::start(), EventCursor::now()].map(|cursor| {
            let request = EventRequest { limit: 1_000, ..EventRequest::after(cursor) };
            store.run(|tx| events::events(tx.conn, &request)).1.steps
        })
    };
    for (few, many) in cost(1_000).into_iter().zip(cost(8_000)) {
        assert_alike("a page", few, many);
    }
}

/// What can still be told of is not looked through with each round of housekeeping.
#[test]
fn housekeeping_passes_over_what_is_told_of() {
    let cost = |rows: i64| {
        let mut store = Traced::new();
        add(&mut store, &mixed(1, 1));
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n WHERE n < 100 + {rows})
                INSERT INTO enqueued_range SELECT n, n, {}, 2, 'test' FROM n;
            UPDATE log_state SET next_sequence = {rows} + 101",
            2 * HOUR
        );
        store.conn.execute_batch(&fill).unwrap();
        store.now += 2 * HOUR;
        store.run(|tx| maintain::maintain(tx, Chunk::FIRST)).1.steps
    };
    assert_alike("a round", cost(10_000), cost(100_000));
}

/// Of claims past the retention a transaction looks at those that it may remove.
#[test]
fn housekeeping_looks_at_the_claims_that_it_removes() {
    let cost = |claims: i64| {
        let store = &mut Traced::new();
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {claims})
                INSERT INTO claim (lo, hi, token, worker, moved, open, completed, claimed_at, finished_at, started, changed)
                SELECT n, n, 1, 1, 0, 0, 1, 1, 1, 0, 0 FROM n"
        );
        store.conn.execute_batch(&fill).unwrap();
        store.run(|tx| fold::fold(tx, HOUR, 1_000, false)).1.steps
    };
    assert_alike("a look", cost(1_000), cost(50_000));
}

/// A range of ids may have those of any number of other claims in it.
#[test]
fn a_range_of_ids_costs_its_claims_jobs() {
    let cost = |others: usize| {
        let mut store = Traced::new();
        let first = add(&mut store, &[later("default")])[0];
        add(&mut store, &(0..others).map(|_| later("other")).collect::<Vec<_>>());
        let last = add(&mut store, &[later("default")])[0];
        store.now += 2 * HOUR;
        while store.run(|tx| promote::promote(tx, 5_000)).0.count > 0 {}
        let (claims, _) = store.claim(2);
        let (page, _) = store.run(|tx| events::events(tx.conn, &EventRequest::after(EventCursor::now())));
        store.complete_jobs(&claims, &JobSet::Ranges(vec![(first.0, last.0)]));
        let (told, events) = store.run(|tx| events::events(tx.conn, &EventRequest::after(page.next.clone())));
        assert_eq!(told.events.len(), 2);
        [events.steps, store.run(|tx| fold::fold(tx, 0, 1_000, true)).1.steps]
    };
    for (few, many) in cost(100).into_iter().zip(cost(10_000)) {
        assert_alike("a range", few, many);
    }
}

/// A job that completed by itself is looked for among those with its id, not among all of its claim.
#[test]
fn a_page_of_single_completions_costs_the_same_in_a_large_claim() {
    let cost = |jobs: u32| {
        let mut store = Traced::new();
        let ids = add(&mut store, &(0..jobs).map(|_| job("default")).collect::<Vec<_>>());
        let (claims, _) = store.claim(jobs);
        let (page, _) = store.run(|tx| events::events(tx.conn, &EventRequest::after(EventCursor::now())));
        store.complete_jobs(&claims, &JobSet::Ranges(ids.iter().map(|id| (id.0, id.0)).collect()));
        let request = EventRequest { limit: 50, ..EventRequest::after(page.next) };
        store.run(|tx| events::events(tx.conn, &request)).1.steps
    };
    assert_alike("a page", cost(100), cost(5_000));
}

/// Where keys have limits the settlement itself looks for them.
#[test]
fn a_range_of_ids_of_a_keyed_queue_costs_its_claims_jobs() {
    let cost = |others: usize| {
        let mut store = Traced::new();
        let limit = KeyLimitsChange::Default(KeyLimit::default().with_concurrency(2));
        store.run(|tx| key_limits::change(tx, "default", &limit));
        let of_key = |key: String| job("default").with_key(key);
        let first = add(&mut store, &[of_key("a".into())])[0];
        let (claims, _) = store.claim(1);
        let disposition = Disposition::Retry { delay: Duration::from_secs(60), error: "no".into() };
        let (claim, position) = (claims[0].reference, claims[0].jobs[0].position);
        let exceptions = vec![Exception { claim, job: first, position, disposition }];
        let request = SettleRequest { worker: store.worker, completions: vec![], exceptions };
        store.settle(&request);
        add(&mut store, &(0..others).map(|n| of_key(format!("b{n}"))).collect::<Vec<_>>());
        loop {
            let (claims, _) = store.claim(5_000);
            if claims.is_empty() {
                break;
            }
            store.complete(&claims);
        }
        store.now += 2 * HOUR;
        store.run(|tx| promote::promote(tx, 10));
        let last = add(&mut store, &[of_key("a".into())])[0];
        let (claims, _) = store.claim(2);
        assert_eq!(claims[0].jobs.len(), 2);
        store.complete_jobs(&claims, &JobSet::Ranges(vec![(first.0, last.0)])).steps
    };
    assert_alike("a settlement", cost(100), cost(10_000));
}

/// Whatever number of queues have limits of keys.
#[test]
fn a_claim_and_its_completion_cost_the_same_among_many_keyed_queues() {
    let hour = Duration::from_secs(3_600);
    let rate = KeyLimit::default().with_rate(RateLimit::new(3, hour));
    let cost = |limit: KeyLimit, queues| {
        let mut store = Traced::new();
        let names = (1..queues).map(|n| format!("queue{n}")).chain(["default".to_owned()]);
        let names: Vec<_> = names.collect();
        for name in &names {
            store.run(|tx| key_limits::change(tx, name, &KeyLimitsChange::Default(limit)));
        }
        let of_queues = names.iter().map(|name| job(name).with_key("a"));
        add(&mut store, &of_queues.collect::<Vec<_>>());
        add(&mut store, &[job("default").with_key("b")]);
        let (claims, claimed) = store.claim(2);
        claimed.steps + store.complete(&claims).steps
    };
    for limit in [KeyLimit::serial(), rate] {
        assert_alike("a claim", cost(limit, 2), cost(limit, 500));
    }
}

#[test]
fn a_list_of_running_jobs_costs_its_own_size() {
    let cost = |queues: usize| {
        let mut store = Traced::new();
        add(&mut store, &mixed(queues, queues));
        let queues_of_all = (0..queues).map(|n| QueueDemand::new(format!("queue{n}"), 1)).collect();
        let request = ClaimRequest { worker: store.worker, queues: queues_of_all };
        let mut from = Some(0);
        while let Some(at) = from {
            from = store.run(|tx| claim::claim(tx, &request, at)).0.1;
        }
        let filter =
            JobFilter { state: Some(JobState::Running), limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
        let (page, work) = store.run(|tx| list::jobs(tx.conn, &filter));
        assert_eq!(page.jobs.len(), queues);
        work.steps / queues as i64
    };
    assert_alike("a job", cost(100), cost(1_000));
}

/// Those of other kinds that wait for a handler are not looked through.
#[test]
fn whether_a_worker_would_be_given_a_job_costs_the_same_whatever_waits_for_others() {
    let cost = |others: i64| {
        let mut store = Traced::new();
        add(&mut store, &[job("default")]);
        store.claim(1);
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {others})
                INSERT INTO waiting (id, lane, state, available_at, kind, args, attempt, max_attempts, crash_count, enqueued_at)
                SELECT 100 + n, lane.id, 2, 1, 'other', '{{}}', 0, 1, 0, 1 FROM lane, n;
            UPDATE lane SET no_handler = {others}"
        );
        store.conn.execute_batch(&fill).unwrap();
        let kinds = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>();
        let mut ask = |kinds: &[String]| {
            store.run(|tx| stats::any_available(tx.conn, &["default".to_owned()], kinds, tx.now))
        };
        assert!(ask(&[]).0 && ask(&kinds(&["test", "other"])).0);
        let (any, work) = ask(&kinds(&["test"]));
        assert!(!any);
        work.steps
    };
    assert_alike("a look", cost(1), cost(10_000));
}

/// Every claim asks for those that wait for a handler, as long as there is one.
#[test]
fn a_claim_beside_a_job_of_a_kind_that_nobody_knows_costs_the_same_whatever_its_worker_knows() {
    let cost = |kinds: usize| {
        let mut store = Traced::new();
        let kinds = (0..kinds).map(|n| format!("kind{n}")).collect();
        store.worker = store.run(|tx| workers::register(tx, &WorkerSpec { kinds, ..any_worker() })).0.worker;
        let ids = add(&mut store, &[of_kind("unknown"), of_kind("a"), of_kind("kind5"), job("default")]);
        let (claims, _) = store.claim(4);
        let exception = |job: &ClaimedJob| Exception {
            claim: claims[0].reference,
            job: job.id,
            position: job.position,
            disposition: Disposition::NoHandler,
        };
        let exceptions: Vec<_> = claims[0].jobs[..3].iter().map(exception).collect();
        store.settle(&SettleRequest { worker: store.worker, completions: vec![], exceptions });
        let (known, found) = store.claim(4);
        assert_eq!((known.len(), known[0].jobs.len(), known[0].jobs[0].id), (1, 1, ids[2]));
        let (none, looked) = store.claim(4);
        assert!(none.is_empty());
        [found.steps, looked.steps]
    };
    for (few, many) in cost(10).into_iter().zip(cost(1_000)) {
        assert_alike("a claim", few, many);
    }
}

#[test]
fn a_page_of_queues_costs_its_own_size() {
    let cost = |queues| {
        let mut store = Traced::new();
        add(&mut store, &mixed(queues, queues));
        let page =
            QueueFilter { after: Some("queue1".to_owned()), limit: Some(20), ..QueueFilter::default() };
        let (listed, work) = store.run(|tx| stats::queues(tx.conn, &page));
        assert_eq!(listed.len(), 20);
        work.steps
    };
    assert_alike("a page", cost(100), cost(2_000));
}

/// A claim names all queues of its worker that have free places.
#[test]
fn a_claim_of_many_queues_is_a_few_statements() {
    let mut store = Traced::new();
    let jobs = mixed(1_000, 1_000);
    let ids = add(&mut store, &jobs);
    ids[1..].iter().for_each(|id| drop(store.run(|tx| control::cancel(tx, *id))));
    let demands = jobs.iter().map(|job| QueueDemand::new(job.queue(), 10)).collect();
    let request = ClaimRequest { worker: store.worker, queues: demands };
    let ((claimed, _), work) = store.run(|tx| claim::claim(tx, &request, 0));
    assert_eq!(claimed.claims[0].jobs[0].id, ids[0]);
    assert!(work.statements.len() < 16, "{:#?}", work.statements);
}

/// Who leads promotes twenty times a second while delayed jobs come.
#[test]
fn a_promotion_costs_the_same_among_many_queues_with_rates() {
    let rate = KeyLimit::default().with_rate(RateLimit::new(1, Duration::from_secs(3_600)));
    let cost = |queues| {
        let mut store = Traced::new();
        for name in (1..queues).map(|n| format!("queue{n}")).chain(["default".to_owned()]) {
            store.run(|tx| key_limits::change(tx, &name, &KeyLimitsChange::Default(rate)));
            add(&mut store, &[job(&name).with_key("a"), job(&name).with_key("a")]);
        }
        let (claims, _) = store.claim(2);
        store.complete(&claims);
        assert!(store.claim(2).0.is_empty(), "the key waits for its rate");
        let due = store.run(|tx| promote::next_due(tx.conn, tx.now));
        assert_eq!(due.0, Some(Duration::from_secs(3_600)));
        let before = store.run(|tx| promote::promote(tx, 10)).1.steps;
        store.now += 2 * HOUR;
        let freed = store.run(|tx| promote::promote(tx, 10)).1.steps;
        assert_eq!(store.claim(2).0.len(), 1);
        [due.1.steps, before, freed]
    };
    for (few, many) in cost(2).into_iter().zip(cost(500)) {
        assert_alike("a promotion", few, many);
    }
}

/// Each transaction of housekeeping looks at some of the keyed lanes.
#[test]
fn housekeeping_looks_at_some_keyed_lanes() {
    let cost = |queues| {
        let mut store = Traced::new();
        for n in 0..queues {
            let limit = KeyLimitsChange::Default(KeyLimit::serial());
            store.run(|tx| key_limits::change(tx, &format!("queue{n}"), &limit));
        }
        add(&mut store, &mixed(queues, queues));
        store.run(key_upkeep::keep).1.steps
    };
    assert_alike("a round", cost(300), cost(1_000));
}

/// Where jobs are kept by rules each transaction looks at some of the queues.
#[test]
fn housekeeping_looks_at_some_queues_with_dead_jobs() {
    let cost = |queues| {
        let mut store = Traced::new();
        let ids = add(&mut store, &mixed(queues, queues));
        ids.iter().for_each(|id| drop(store.run(|tx| control::cancel(tx, *id))));
        let rules = [RetentionRule::of_every_queue(JobState::Cancelled).with_count(1)];
        store.run(|tx| retention::past(tx, &rules, &Settings::DEFAULT, 0, 1_000)).1.steps
    };
    assert_alike("a transaction", cost(300), cost(1_000));
}

/// What handlers said of jobs whose ids lie between those of a claim.
#[test]
fn a_claim_is_removed_at_the_same_cost_whatever_was_said_of_others() {
    let cost = |others: usize| {
        let mut store = Traced::new();
        add(&mut store, &[job("default")]);
        add(&mut store, &(0..others).map(|_| job("other")).collect::<Vec<_>>());
        add(&mut store, &[job("default")]);
        let (claims, _) = store.claim(2);
        store.complete(&claims);
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n <= {others})
                INSERT INTO job_report (job, claim, number, at, attempt, log, log_dropped) SELECT n, 1, 1, 1, 1, '[]', 0 FROM n"
        );
        store.conn.execute_batch(&fill).unwrap();
        store.now += 48 * HOUR;
        let work = store.run(|tx| maintain::maintain(tx, Chunk::FIRST)).1;
        let left = "SELECT count(*) FROM job_report";
        let left: i64 = store.conn.query_one(left, [], |row| row.get(0)).unwrap();
        assert_eq!(left, others as i64, "of the claim's first job was one");
        work.steps
    };
    assert_alike("a claim", cost(100), cost(10_000));
}

/// Of a claim without gaps, whose jobs need not be counted.
#[test]
fn results_of_a_claim_cost_its_ranges() {
    let cost = |jobs: u32| {
        let mut store = Traced::new();
        add(&mut store, &(0..jobs).map(|_| job("default")).collect::<Vec<_>>());
        let (claims, _) = store.claim(jobs);
        let exception = |job: &ClaimedJob| Exception {
            claim: claims[0].reference,
            job: job.id,
            position: job.position,
            disposition: Disposition::Complete { result: Some(Args::parse("1").unwrap()) },
        };
        let exceptions: Vec<_> = claims[0].jobs.iter().map(exception).collect();
        let request = SettleRequest { worker: store.worker, completions: vec![], exceptions };
        let (reply, work) = store.settle(&request);
        assert!(reply.exceptions.iter().all(|(_, settled)| *settled == windlass_core::Settled::Accepted));
        work.steps
    };
    assert_alike("a settlement", cost(100), cost(1_000));
}
