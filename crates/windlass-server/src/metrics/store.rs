//! What the store says of itself, its workers and schedules.

use super::{Look, gauge};
use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, info::Info},
    registry::{Registry, Unit},
};
use std::{collections::BTreeSet, sync::atomic::AtomicU64};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

type States = Family<OfState, Gauge>;

pub(super) fn register(registry: &mut Registry, look: &Look, now: Timestamp) {
    let status = &look.status;
    let info = [("store", status.store.clone()), ("schema_version", status.schema_version.to_string())];
    registry.register("store", "Which store it is", Info::new(info.to_vec()));
    let bytes: Gauge = Gauge::default();
    bytes.set(gauge(status.size_bytes));
    registry.register_with_unit("store", "The size of Windlass's tables", Unit::Bytes, bytes);

    // A server that keeps house for HTTP workers is registered, and takes no jobs itself.
    let takers = || status.workers.iter().filter(|worker| !worker.queues.is_empty());
    let live = takers().filter(|worker| worker.live).count();
    let workers = states([("live", live), ("gone", takers().count() - live)]);
    registry.register("workers", "Workers with queues that registered lately", workers);

    // Few series, whatever workers say: no version and no worker is a label.
    let alive = || takers().filter(|worker| worker.live);
    let memory: Gauge = Gauge::default();
    // HTTP workers say what they like.
    let said = alive().filter_map(|worker| worker.load.memory_bytes);
    memory.set(gauge(said.fold(0, u64::saturating_add)));
    registry.register_with_unit(
        "workers_memory",
        "Resident memory of live workers that say it",
        Unit::Bytes,
        memory,
    );
    let versions: Gauge = Gauge::default();
    versions.set(gauge(
        alive().filter_map(|worker| worker.program.app_version.as_ref()).collect::<BTreeSet<_>>().len()
            as u64,
    ));
    registry.register(
        "workers_app_versions",
        "Versions of the application that live workers say they are",
        versions,
    );

    if let Some(schedules) = &look.schedules {
        let failing = schedules.iter().filter(|schedule| schedule.error.is_some()).count();
        let paused = schedules.iter().filter(|schedule| schedule.error.is_none() && schedule.paused).count();
        let active = schedules.len() - failing - paused;
        let schedules = states([("active", active), ("paused", paused), ("failing", failing)]);
        registry.register("schedules", "The first thousand schedules; failing ones never fire", schedules);
    }

    // On SQLite it is 1970 until somebody counts.
    let until = look.history.as_ref().map(|history| history.counted_until);
    if let Some(until) = until.filter(|until| *until > Timestamp::UNIX_EPOCH) {
        let lag = Gauge::<f64, AtomicU64>::default();
        lag.set(now.duration_since(until).as_secs_f64().max(0.0));
        let help = "How long ago the worker that leads had counted everything that ended";
        registry.register_with_unit("history_lag", help, Unit::Seconds, lag);
    }
}

fn states<const N: usize>(counts: [(&'static str, usize); N]) -> States {
    let family = States::default();
    for (state, count) in counts {
        family.get_or_create(&OfState { state }).set(gauge(count as u64));
    }
    family
}
