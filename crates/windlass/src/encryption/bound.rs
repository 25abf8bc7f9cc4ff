use windlass_core::JobId;

/// What an envelope belongs to. It opens there and nowhere else.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "encryption"), allow(dead_code, reason = "nothing is opened"))]
pub(crate) enum Bound<'a> {
    Args {
        kind: &'a str,
        /// Random, and kept in the job's meta: ids are given by the store, after the args were sealed.
        binding: &'a str,
        /// Whom or what the job is about.
        key: Option<&'a str>,
    },
    Result {
        kind: &'a str,
        job: JobId,
    },
    Checkpoint {
        kind: &'a str,
        job: JobId,
    },
}

#[cfg(feature = "encryption")]
impl Bound<'_> {
    /// The associated data: texts without NUL, joined by NUL.
    pub(crate) fn associated_data(&self, key_id: &str) -> Vec<u8> {
        const FORMAT: &str = "windlass.enc/1";
        let text = match *self {
            Self::Args { kind, binding, key } => {
                [FORMAT, "args", key_id, kind, binding, key.unwrap_or_default()].join("\0")
            }
            Self::Result { kind, job } => [FORMAT, "result", key_id, kind, &job.to_string()].join("\0"),
            Self::Checkpoint { kind, job } => {
                [FORMAT, "checkpoint", key_id, kind, &job.to_string()].join("\0")
            }
        };
        text.into_bytes()
    }
}
