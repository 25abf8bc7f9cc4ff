use crate::{Handler, caught, core::Core};
use std::{sync::Arc, time::Duration};

/// The handler of the job before: jobs of one kind come in runs, and looking one up costs a hash.
#[derive(Default)]
pub(crate) struct LastHandler {
    kind: Option<Arc<str>>,
    found: Option<Arc<Found>>,
}

/// A handler, and how long its attempts may take.
pub(crate) struct Found {
    pub(crate) kind: Arc<str>,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) timeout: Option<Duration>,
}

impl LastHandler {
    /// An error when the handler map panicked.
    pub(crate) fn find(&mut self, core: &Core, kind: &Arc<str>) -> Result<Option<&Arc<Found>>, String> {
        match &mut self.kind {
            Some(known) if Arc::ptr_eq(known, kind) => {}
            // Of another claim: the text is compared once for all of its jobs.
            Some(known) if known == kind => *known = Arc::clone(kind),
            _ => self.look_up(core, kind)?,
        }
        Ok(self.found.as_ref())
    }

    fn look_up(&mut self, core: &Core, kind: &Arc<str>) -> Result<(), String> {
        self.kind = None;
        self.found = caught(|| {
            let handler = core.dispatch.find(kind)?;
            let timeout = handler.timeout().or(core.config.timeout);
            let timeout = timeout.filter(|timeout| *timeout < Duration::MAX);
            Some(Arc::new(Found { kind: Arc::clone(kind), handler, timeout }))
        })?;
        if self.found.is_none() {
            core.unknown_kinds.note(kind);
        }
        self.kind = Some(Arc::clone(kind));
        Ok(())
    }
}
