//! A client that acts for somebody, the same over every store.

use std::time::Duration;
use windlass::{
    Args, AuditFilter, Client, JobEdit, JobFilter, JobId, JobState, KeyLimit, NewJob, QueueLimits,
    RetentionRule, Schedule, Settings, WorkerId,
};
use windlass_core::WorkerSpec;

fn job() -> NewJob {
    NewJob::new("work", Args::parse("{}").unwrap())
}

async fn worker(client: &Client) -> WorkerId {
    let (name, queues) = ("w".to_owned(), vec!["other".to_owned()]);
    let spec = WorkerSpec {
        name,
        queues,
        kinds: vec![],
        lease: Duration::from_secs(3600),
        program: Default::default(),
    };
    client.store().register(&spec).await.unwrap().worker
}

/// Every call that changes something, once; `plain` enqueues and is asked for the log.
async fn change_everything(client: &Client, plain: &Client) -> (Vec<JobId>, WorkerId) {
    let ids = plain.enqueue_many((0..3).map(|_| job())).await.unwrap();
    client.edit(&ids[..1], &JobEdit::new().with_priority(5)).await.unwrap();
    client.cancel(&[ids[0], ids[1], JobId(i64::MAX)]).await.unwrap();
    client.retry(&ids[1..2]).await.unwrap();
    client.delete(&ids[..1]).await.unwrap();
    let works = JobFilter { kind: Some("work".into()), ..JobFilter::default() };
    client.select(works.clone()).dry_run(true).cancel().await.unwrap();
    client.select(works).cancel().await.unwrap();
    client.select_ids(ids[1..].to_vec()).retry().await.unwrap();
    client.select(JobFilter::default()).cancel().await.expect_err("everything, and that is not said");
    client.pause("default").await.unwrap();
    client.resume("default").await.unwrap();
    client.pause("unknown").await.expect_err("no such queue");
    let worker = worker(plain).await;
    client.drain_worker(worker).await.unwrap();
    client.limit("default", &QueueLimits::default().with_concurrency(3)).await.unwrap();
    client.limit_keys("keyed", KeyLimit::default().with_concurrency(2)).await.unwrap();
    client.limit_key("keyed", "acme", KeyLimit::default().with_concurrency(1)).await.unwrap();
    client.unlimit_key("keyed", "acme").await.unwrap();
    client.unlimit_keys("keyed").await.unwrap();
    client.configure(&Settings::default()).await.unwrap();
    let mut rule = RetentionRule::of("default", JobState::Cancelled);
    rule.age = Some(Duration::from_secs(60));
    client.set_retention(&[rule]).await.unwrap();
    let schedule = |name| Schedule::new(name, "0 3 * * *", job());
    for _ in 0..2 {
        client.schedules().put_all_of("code", [schedule("a"), schedule("b")]).await.unwrap();
    }
    client.schedules().put_all_of("code", [schedule("a")]).await.unwrap();
    client.schedules().pause("a").await.unwrap();
    client.schedules().resume("a").await.unwrap();
    client.schedules().pause("none").await.expect_err("no such schedule");
    client.schedules().run("a").await.unwrap();
    client.schedules().remove("a").await.unwrap();
    (ids, worker)
}

async fn noted(client: &Client, actor: Option<&str>) -> Vec<String> {
    let filter = AuditFilter { actor: actor.map(Into::into), limit: 1_000, ..AuditFilter::default() };
    let page = client.audit(&filter).await.unwrap();
    let line = |record: &windlass::AuditRecord| {
        let entry = &record.entry;
        let filter = entry.filter.as_ref().map_or("", |filter| filter.as_str());
        let count = entry.count.map(|count| count.to_string()).unwrap_or_default();
        assert_eq!((&*entry.via, &*entry.outcome), ("sdk", "done"));
        format!("{} {} {filter} {count}", entry.action, entry.target)
    };
    page.entries.iter().rev().map(line).collect()
}

/// One entry for each call that changed something, or may have; and none of who acts for nobody.
pub(crate) async fn what_is_done_for_somebody_is_noted(client: &Client) {
    client.acting_as(" ").expect_err("nobody");
    let (ids, worker) = change_everything(&client.acting_as("billing").unwrap(), client).await;
    let expected = format!(
        r#"jobs.edit job {a} {{"edit":{{"priority":5}}}} 1
jobs.cancel 3 jobs {{"ids":["{a}","{b}","{none}"]}} 2
jobs.retry job {b}  1
jobs.delete job {a}  1
jobs.cancel jobs {{"kind":"work"}} 2
jobs.retry 2 jobs {{"ids":["{b}","{c}"]}} 2
queues.pause default  
queues.resume default  
workers.drain {worker}  
queues.limit default  
queues.limit_keys keyed  
queues.limit_key keyed acme  
queues.unlimit_key keyed acme  
queues.unlimit_keys keyed  
settings.put settings  
retention.put default cancelled  
schedules.put a  
schedules.put b  
schedules.remove b  
schedules.pause a  
schedules.resume a  
schedules.run a  
schedules.remove a  "#,
        a = ids[0],
        b = ids[1],
        c = ids[2],
        none = i64::MAX,
    );
    assert_eq!(noted(client, Some("billing")).await.join("\n"), expected);
    let before = noted(client, None).await.len();
    change_everything(client, client).await;
    assert_eq!(noted(client, None).await.len(), before, "who acts for nobody is not noted");
}
