/// Implements [`JobStore`](crate::JobStore), [`ScheduleStore`](crate::ScheduleStore), [`AuditStore`](crate::AuditStore) and [`Leader`](crate::Leader)
/// for a type that wraps a store, for measurements, faults or notes: the calls that are named go on to the field as they are, the others are written
/// out. Schedules, the audit log and leadership go on as they are; with `through store but leadership: [..]` the type implements [`Leader`](crate::Leader) itself.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use windlass_core::{ClaimRequest, Claimed, JobStore, Result, Store, wrap_store};
///
/// struct Counting {
///     store: Arc<dyn Store>,
///     claims: AtomicU64,
/// }
///
/// wrap_store! {
///     impl JobStore for Counting, through store:
///     [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister settle report checkpoints suspect rescue promote maintain
///      settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events wakeup close]
///
///     async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
///         self.claims.fetch_add(1, Ordering::Relaxed);
///         self.store.claim(request).await
///     }
/// }
/// ```
#[macro_export]
macro_rules! wrap_store {
    (impl JobStore for $type:ty, through $store:ident: [$($method:ident)*] $($own:tt)*) => {
        $crate::wrap_store!(impl JobStore for $type, through $store but leadership: [$($method)*] $($own)*);

        #[$crate::async_trait]
        impl $crate::Leader for $type {
            async fn lead(&self, worker: $crate::WorkerId, term: ::std::time::Duration) -> $crate::Result<bool> {
                self.$store.lead(worker, term).await
            }
            async fn resign(&self, worker: $crate::WorkerId) -> $crate::Result<()> {
                self.$store.resign(worker).await
            }
        }
    };
    (impl JobStore for $type:ty, through $store:ident but leadership: [$($method:ident)*] $($own:tt)*) => {
        $crate::wrap_store!(@ $type, $store, [$($own)*], $($method)*);

        #[$crate::async_trait]
        impl $crate::ScheduleStore for $type {
            async fn put_schedules(&self, schedules: &[$crate::Schedule], prune: Option<&str>) -> $crate::Result<$crate::SchedulesPut> {
                self.$store.put_schedules(schedules, prune).await
            }
            async fn schedules(&self, filter: &$crate::ScheduleFilter) -> $crate::Result<Vec<$crate::ScheduleRecord>> {
                self.$store.schedules(filter).await
            }
            async fn remove_schedules(&self, names: &[String]) -> $crate::Result<Vec<bool>> {
                self.$store.remove_schedules(names).await
            }
            async fn pause_schedules(&self, names: &[String], paused: bool) -> $crate::Result<Vec<bool>> {
                self.$store.pause_schedules(names, paused).await
            }
            async fn due_schedules(&self, limit: u32) -> $crate::Result<$crate::DueSchedules> {
                self.$store.due_schedules(limit).await
            }
            async fn advance_schedules(&self, steps: &[$crate::ScheduleStep]) -> $crate::Result<Vec<Option<Vec<$crate::JobId>>>> {
                self.$store.advance_schedules(steps).await
            }
        }

        #[$crate::async_trait]
        impl $crate::AuditStore for $type {
            async fn append_audit(&self, entries: &[$crate::AuditEntry]) -> $crate::Result<()> {
                self.$store.append_audit(entries).await
            }
            async fn audit(&self, filter: &$crate::AuditFilter) -> $crate::Result<$crate::AuditPage> {
                self.$store.audit(filter).await
            }
        }

        #[$crate::async_trait]
        impl $crate::TimingStore for $type {
            async fn measure(&self, timings: &[$crate::Timing]) -> $crate::Result<()> {
                self.$store.measure(timings).await
            }
            async fn timings(&self, request: &$crate::TimingRequest) -> $crate::Result<$crate::Timings> {
                self.$store.timings(request).await
            }
            async fn failures(&self, request: &$crate::TimingRequest) -> $crate::Result<Vec<$crate::FailureGroup>> {
                self.$store.failures(request).await
            }
        }
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], ) => {
        #[$crate::async_trait]
        impl $crate::JobStore for $type {
            $($done)*
        }
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], capabilities $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            fn capabilities(&self) -> $crate::Capabilities { self.$store.capabilities() }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], migrate $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn migrate(&self) -> $crate::Result<$crate::MigrationReport> { self.$store.migrate().await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], enqueue $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn enqueue(&self, jobs: &[$crate::NewJob]) -> $crate::Result<Vec<$crate::JobId>> { self.$store.enqueue(jobs).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], enqueue_once $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn enqueue_once(&self, key: &str, jobs: &[$crate::NewJob]) -> $crate::Result<$crate::EnqueuedOnce> { self.$store.enqueue_once(key, jobs).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], enqueue_unique $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn enqueue_unique(&self, jobs: &[$crate::NewJob]) -> $crate::Result<Vec<$crate::EnqueuedUnique>> { self.$store.enqueue_unique(jobs).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], register $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn register(&self, worker: &$crate::WorkerSpec) -> $crate::Result<$crate::Registration> { self.$store.register(worker).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], heartbeat $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn heartbeat_with(&self, worker: $crate::WorkerId, load: $crate::Load) -> $crate::Result<$crate::Heartbeat> { self.$store.heartbeat_with(worker, load).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], deregister $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn deregister(&self, worker: $crate::WorkerId) -> $crate::Result<()> { self.$store.deregister(worker).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], claim $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn claim(&self, request: &$crate::ClaimRequest) -> $crate::Result<$crate::Claimed> { self.$store.claim(request).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], settle $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn settle(&self, request: &$crate::SettleRequest) -> $crate::Result<$crate::SettleReply> { self.$store.settle(request).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], report $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn report(&self, request: &$crate::ReportRequest) -> $crate::Result<Vec<$crate::Reported>> { self.$store.report(request).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], checkpoints $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn checkpoints(&self, ids: &[$crate::JobId]) -> $crate::Result<Vec<Option<$crate::Args>>> { self.$store.checkpoints(ids).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], suspect $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn suspect(&self, worker: $crate::WorkerId, job: Option<$crate::JobId>) -> $crate::Result<()> { self.$store.suspect(worker, job).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], rescue $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn rescue(&self, rescuer: $crate::WorkerId) -> $crate::Result<$crate::RescueReport> { self.$store.rescue(rescuer).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], promote $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn promote(&self, limit: u32) -> $crate::Result<$crate::Promoted> { self.$store.promote(limit).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], maintain $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn maintain(&self) -> $crate::Result<$crate::MaintainReport> { self.$store.maintain().await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], settings $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn settings(&self) -> $crate::Result<$crate::Settings> { self.$store.settings().await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], configure $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn change_settings(&self, change: &$crate::SettingsChange) -> $crate::Result<()> { self.$store.change_settings(change).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], retention $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn retention(&self) -> $crate::Result<Vec<$crate::RetentionRule>> { self.$store.retention().await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], set_retention $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn set_retention(&self, rules: &[$crate::RetentionRule]) -> $crate::Result<()> { self.$store.set_retention(rules).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], cancel $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn cancel(&self, ids: &[$crate::JobId]) -> $crate::Result<Vec<$crate::CancelReply>> { self.$store.cancel(ids).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], retry $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn retry(&self, ids: &[$crate::JobId]) -> $crate::Result<Vec<$crate::RetryReply>> { self.$store.retry(ids).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], edit $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn edit(&self, ids: &[$crate::JobId], edit: &$crate::JobEdit) -> $crate::Result<Vec<$crate::EditReply>> { self.$store.edit(ids, edit).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], delete $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn delete(&self, ids: &[$crate::JobId]) -> $crate::Result<Vec<$crate::DeleteReply>> { self.$store.delete(ids).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], pause $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn pause(&self, queue: &str, paused: bool) -> $crate::Result<()> { self.$store.pause(queue, paused).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], limit $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn limit(&self, queue: &str, limits: &$crate::QueueLimits) -> $crate::Result<()> { self.$store.limit(queue, limits).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], drain_worker $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn drain_worker(&self, worker: $crate::WorkerId) -> $crate::Result<()> { self.$store.drain_worker(worker).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], limit_keys $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn limit_keys(&self, queue: &str, change: &$crate::KeyLimitsChange) -> $crate::Result<()> { self.$store.limit_keys(queue, change).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], key_limits $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn key_limits(&self, queue: &str) -> $crate::Result<Option<$crate::KeyLimits>> { self.$store.key_limits(queue).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], share $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn share(&self, request: &$crate::ShareRequest) -> $crate::Result<Vec<Option<$crate::Share>>> { self.$store.share(request).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], job $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn job(&self, id: $crate::JobId) -> $crate::Result<Option<$crate::JobRecord>> { self.$store.job(id).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], jobs $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn jobs(&self, filter: &$crate::JobFilter) -> $crate::Result<$crate::JobPage> { self.$store.jobs(filter).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], any_available $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn any_available(&self, queues: &[String], kinds: &[String]) -> $crate::Result<bool> { self.$store.any_available(queues, kinds).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], coming $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn coming(&self, queues: &[String]) -> $crate::Result<$crate::Coming> { self.$store.coming(queues).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], queues_by $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn queues_by(&self, filter: &$crate::QueueFilter) -> $crate::Result<Vec<$crate::QueueStats>> { self.$store.queues_by(filter).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], history $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn history(&self, request: &$crate::HistoryRequest) -> $crate::Result<$crate::History> { self.$store.history(request).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], status $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn status(&self) -> $crate::Result<$crate::StoreStatus> { self.$store.status().await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], wakeup $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            fn wakeup(&self) -> Box<dyn $crate::Wakeup> { self.$store.wakeup() }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], states $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn states(&self, ids: &[$crate::JobId]) -> $crate::Result<Vec<Option<$crate::JobState>>> { self.$store.states(ids).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], ended $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn ended(&self, ids: &[$crate::JobId]) -> $crate::Result<$crate::Ended> { self.$store.ended(ids).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], ends $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            fn ends(&self) -> Option<Box<dyn $crate::Ends>> { self.$store.ends() }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], events $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn events(&self, request: &$crate::EventRequest) -> $crate::Result<$crate::EventPage> { self.$store.events(request).await }
        ], $($rest)*);
    };
    (@ $type:ty, $store:ident, [$($done:tt)*], close $($rest:ident)*) => {
        $crate::wrap_store!(@ $type, $store, [$($done)*
            async fn close(&self) { self.$store.close().await }
        ], $($rest)*);
    };
}
