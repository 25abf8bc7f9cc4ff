//! Policy: kept by the store, the same for everybody.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{ErrorKind, Settings};

/// A fresh store begins with the defaults; what one caller changes every other sees.
pub async fn everybody_sees_a_change(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    assert_eq!(store.settings().await.expect("settings"), Settings::DEFAULT);
    let changed = Settings::DEFAULT
        .with_retention(Duration::from_millis(1_500))
        .with_dead_retention(Duration::from_secs(90 * 86_400))
        .with_segment_bytes(1 << 20)
        .with_max_crashes(7)
        .with_audit_retention(Duration::from_secs(86_400));
    store.configure(&changed).await.expect("configure");
    assert_eq!(other.settings().await.expect("settings"), changed);
}

/// What cannot work is refused and changes nothing.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for bad in [
        Settings::DEFAULT.with_max_crashes(2),
        Settings::DEFAULT.with_segment_bytes(0),
        Settings::DEFAULT.with_retention(Duration::MAX),
        Settings::DEFAULT.with_dead_retention(Settings::LONGEST + Duration::from_secs(1)),
        Settings::DEFAULT.with_audit_retention(Duration::MAX),
    ] {
        let error = store.configure(&bad).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
    let most = Settings::DEFAULT.with_retention(Settings::LONGEST).with_segment_bytes(u64::MAX >> 1);
    store.configure(&most).await.expect("the most that may be kept");
    assert_eq!(store.settings().await.expect("settings"), most);
    maintain_with(&store, most).await;
}
