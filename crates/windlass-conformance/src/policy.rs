//! Policy: kept by the store, the same for everybody.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{ErrorKind, Settings, SettingsChange};

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

/// A change of some values leaves the others as they are, also those that somebody changes at the same time.
pub async fn two_changes_are_both_kept(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let mut expected = Settings::DEFAULT;
    for n in 1..20 {
        let first = SettingsChange::new().with_retention(Duration::from_secs(n)).with_segment_bytes(n << 20);
        let crashes = 3 + n as u16;
        let second = SettingsChange::new()
            .with_max_crashes(crashes)
            .with_dead_retention(Duration::from_secs(n))
            .with_audit_retention(Duration::from_secs(n));
        let (one, two) = tokio::join!(store.change_settings(&first), other.change_settings(&second));
        one.expect("changes");
        two.expect("changes");
        expected = second.of(first.of(expected));
        assert_eq!(store.settings().await.expect("settings"), expected);
    }
    let error = store.change_settings(&SettingsChange::new().with_max_crashes(2)).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    store.change_settings(&SettingsChange::new()).await.expect("nothing");
    assert_eq!(store.settings().await.expect("settings"), expected);
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
