use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Returns when that time has come, or the bell rings.
pub(super) async fn due_or_rung(due: Option<Instant>, bell: &Notify) {
    let due = async {
        match due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = bell.notified() => {}
        () = due => {}
    }
}
