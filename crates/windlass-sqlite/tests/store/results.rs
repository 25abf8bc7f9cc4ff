//! Results of jobs, as far as only this store has to do with them.

use crate::{fixture::Fixture, idle_lanes::sql};
use windlass_core::JobStore;

/// A claim may have results of thousands of jobs, each of them large: to look one job up reads no others. They are damaged here, so that
/// reading them would fail.
#[tokio::test]
async fn a_look_at_one_job_reads_no_results_of_others() {
    let f = Fixture::new();
    let added = f.add(5).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 5).await.remove(0);
    f.complete(worker, &claim).await;
    let insert = format!(
        "INSERT INTO result (job, claim, result, jobs) SELECT job, lo, iif(damaged, CAST(x'ff' AS TEXT), result), jobs FROM claim,
        (SELECT {} AS job, true AS damaged, '' AS result, NULL AS jobs UNION ALL SELECT {}, false, '7', NULL
        UNION ALL SELECT {last}, true, '', '[{},{last}]')",
        added[1],
        added[2],
        added[3],
        last = added[4]
    );
    assert_eq!(sql(&f).execute(&insert, []).unwrap(), 3);
    assert_eq!(f.job(added[0]).await.unwrap().unwrap().result, None);
    let result = f.job(added[2]).await.unwrap().unwrap().result.unwrap();
    assert_eq!(result.as_str(), "7");
    for id in [added[1], added[3], added[4]] {
        f.job(id).await.unwrap_err();
    }
}
