use crate::{Error, ErrorKind, Result, millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The policy of a store: the same for every worker on it, whichever of them keeps house. As JSON its times are whole
/// milliseconds: `retention_ms`, `dead_retention_ms`, `audit_retention_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// How long completed jobs stay readable, at least. Default a day.
    #[serde(rename = "retention_ms", with = "millis")]
    pub retention: Duration,
    /// How long cancelled and discarded jobs stay readable. Default 30 days.
    #[serde(rename = "dead_retention_ms", with = "millis")]
    pub dead_retention: Duration,
    /// The log moves on to its next segment when the current one holds this many bytes. Default 1 GiB.
    /// For stores that keep a log in segments.
    pub segment_bytes: u64,
    /// A job that was held by so many dying workers is discarded as `crash_loop`. At least 3, because only a job
    /// that ran alone is to blame. Default 5.
    pub max_crashes: u16,
    /// How long entries of the [audit log](crate::AuditStore) are kept, the newest [million](crate::AuditFilter::MOST_KEPT) of them at most.
    /// Default 400 days.
    #[serde(rename = "audit_retention_ms", with = "millis")]
    pub audit_retention: Duration,
}

impl Settings {
    /// What a store begins with.
    pub const DEFAULT: Self = Self {
        retention: Duration::from_secs(86_400),
        dead_retention: Duration::from_secs(30 * 86_400),
        segment_bytes: 1 << 30,
        max_crashes: 5,
        audit_retention: Duration::from_secs(400 * 86_400),
    };
    /// The least [`Self::max_crashes`].
    pub const LEAST_CRASHES: u16 = 3;
    /// The largest [`Self::max_crashes`]: what PostgreSQL's `smallint` holds.
    pub const MOST_CRASHES: u16 = 32_767;
    /// The longest time that may be kept: 100 years.
    pub const LONGEST: Duration = crate::Limits::LONGEST;

    /// With another [`Self::retention`].
    #[must_use]
    pub const fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// With another [`Self::dead_retention`].
    #[must_use]
    pub const fn with_dead_retention(mut self, dead_retention: Duration) -> Self {
        self.dead_retention = dead_retention;
        self
    }

    /// With another [`Self::segment_bytes`].
    #[must_use]
    pub const fn with_segment_bytes(mut self, segment_bytes: u64) -> Self {
        self.segment_bytes = segment_bytes;
        self
    }

    /// With another [`Self::max_crashes`].
    #[must_use]
    pub const fn with_max_crashes(mut self, max_crashes: u16) -> Self {
        self.max_crashes = max_crashes;
        self
    }

    /// With another [`Self::audit_retention`].
    #[must_use]
    pub const fn with_audit_retention(mut self, audit_retention: Duration) -> Self {
        self.audit_retention = audit_retention;
        self
    }

    /// Checks the values; a store calls this before it keeps them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        for (name, value) in [
            ("retention", self.retention),
            ("dead_retention", self.dead_retention),
            ("audit_retention", self.audit_retention),
        ] {
            if value > Self::LONGEST {
                return refuse(format!("{name} must be at most 100 years, got {value:?}"));
            }
        }
        if self.max_crashes < Self::LEAST_CRASHES {
            let least = Self::LEAST_CRASHES;
            return refuse(format!("max_crashes must be at least {least}, got {}", self.max_crashes));
        }
        if self.max_crashes > Self::MOST_CRASHES {
            let most = Self::MOST_CRASHES;
            return refuse(format!("max_crashes must be at most {most}, got {}", self.max_crashes));
        }
        if self.segment_bytes == 0 {
            return refuse("segment_bytes must be at least 1, got 0".to_owned());
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds_as_json_and_what_is_left_out_has_its_default() {
        let set = Settings::default().with_retention(Duration::from_secs(7)).with_max_crashes(9);
        let json = serde_json::json!({"retention_ms": 7_000, "max_crashes": 9});
        assert_eq!(serde_json::from_value::<Settings>(json).unwrap(), set);
        let whole = serde_json::to_value(set).unwrap();
        assert_eq!(whole["audit_retention_ms"], 34_560_000_000_u64);
        assert_eq!(serde_json::from_value::<Settings>(whole).unwrap(), set);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let fine = Settings::default();
        for just in [
            fine,
            fine.with_max_crashes(3).with_segment_bytes(1),
            fine.with_max_crashes(32_767)
                .with_retention(Settings::LONGEST)
                .with_dead_retention(Settings::LONGEST),
        ] {
            just.check().unwrap();
        }
        for (settings, says) in [
            (fine.with_max_crashes(2), "max_crashes must be at least 3, got 2"),
            (fine.with_max_crashes(32_768), "max_crashes must be at most 32767, got 32768"),
            (fine.with_segment_bytes(0), "segment_bytes"),
            (fine.with_retention(Duration::MAX), "retention must be at most 100 years"),
            (fine.with_dead_retention(Duration::MAX), "dead_retention must be at most 100 years"),
            (fine.with_audit_retention(Duration::MAX), "audit_retention must be at most 100 years"),
        ] {
            let error = settings.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
