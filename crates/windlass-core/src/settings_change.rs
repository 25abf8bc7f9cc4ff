use crate::{Result, Settings};
use std::time::Duration;

/// What to change of a store's [settings](Settings); the others stay as they are, whoever changes one of them meanwhile.
///
/// ```
/// use windlass_core::{Settings, SettingsChange};
/// let change = SettingsChange::new().with_max_crashes(7);
/// assert_eq!(change.of(Settings::DEFAULT), Settings::DEFAULT.with_max_crashes(7));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingsChange {
    /// [`Settings::retention`].
    pub retention: Option<Duration>,
    /// [`Settings::dead_retention`].
    pub dead_retention: Option<Duration>,
    /// [`Settings::segment_bytes`].
    pub segment_bytes: Option<u64>,
    /// [`Settings::max_crashes`].
    pub max_crashes: Option<u16>,
    /// [`Settings::audit_retention`].
    pub audit_retention: Option<Duration>,
}

impl SettingsChange {
    /// Of nothing.
    pub const fn new() -> Self {
        Self {
            retention: None,
            dead_retention: None,
            segment_bytes: None,
            max_crashes: None,
            audit_retention: None,
        }
    }

    /// With another [`Settings::retention`].
    #[must_use]
    pub const fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// With another [`Settings::dead_retention`].
    #[must_use]
    pub const fn with_dead_retention(mut self, dead_retention: Duration) -> Self {
        self.dead_retention = Some(dead_retention);
        self
    }

    /// With another [`Settings::segment_bytes`].
    #[must_use]
    pub const fn with_segment_bytes(mut self, segment_bytes: u64) -> Self {
        self.segment_bytes = Some(segment_bytes);
        self
    }

    /// With another [`Settings::max_crashes`].
    #[must_use]
    pub const fn with_max_crashes(mut self, max_crashes: u16) -> Self {
        self.max_crashes = Some(max_crashes);
        self
    }

    /// With another [`Settings::audit_retention`].
    #[must_use]
    pub const fn with_audit_retention(mut self, audit_retention: Duration) -> Self {
        self.audit_retention = Some(audit_retention);
        self
    }

    /// These settings, changed.
    pub fn of(&self, settings: Settings) -> Settings {
        settings
            .with_retention(self.retention.unwrap_or(settings.retention))
            .with_dead_retention(self.dead_retention.unwrap_or(settings.dead_retention))
            .with_segment_bytes(self.segment_bytes.unwrap_or(settings.segment_bytes))
            .with_max_crashes(self.max_crashes.unwrap_or(settings.max_crashes))
            .with_audit_retention(self.audit_retention.unwrap_or(settings.audit_retention))
    }

    /// Checks the values; a store calls this before it keeps them.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn check(&self) -> Result<()> {
        self.of(Settings::DEFAULT).check()
    }
}

/// Of all of them.
impl From<Settings> for SettingsChange {
    fn from(settings: Settings) -> Self {
        Self {
            retention: Some(settings.retention),
            dead_retention: Some(settings.dead_retention),
            segment_bytes: Some(settings.segment_bytes),
            max_crashes: Some(settings.max_crashes),
            audit_retention: Some(settings.audit_retention),
        }
    }
}
