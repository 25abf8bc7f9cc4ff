use std::{collections::HashMap, sync::Arc};
use windlass_core::{Error, ErrorKind, Result};
use windlass_runtime::{Dispatch, Handler};

/// The handlers of a worker, by kind.
#[derive(Default)]
pub(crate) struct Registry {
    by_kind: HashMap<String, Arc<dyn Handler>>,
    any: Option<Arc<dyn Handler>>,
    /// The first kind that was given two handlers.
    doubled: Option<String>,
}

impl Registry {
    pub(crate) fn insert(&mut self, kind: String, handler: Arc<dyn Handler>) {
        if let Some(kind) = self.by_kind.get(&kind).map(|_| kind.clone()) {
            self.doubled.get_or_insert(kind);
        }
        self.by_kind.insert(kind, handler);
    }

    pub(crate) fn insert_any(&mut self, handler: Arc<dyn Handler>) {
        if self.any.replace(handler).is_some() {
            self.doubled.get_or_insert_with(|| "any".to_owned());
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if let Some(kind) = &self.doubled {
            return refuse(format!("kind {kind:?} has two handlers; keep one"));
        }
        if self.by_kind.is_empty() && self.any.is_none() {
            return refuse(
                "the worker has no handler; add one with handle, handle_kind or handle_any".to_owned(),
            );
        }
        Ok(())
    }
}

impl Dispatch for Registry {
    fn kinds(&self) -> Vec<String> {
        match self.any {
            Some(_) => Vec::new(),
            None => self.by_kind.keys().cloned().collect(),
        }
    }

    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>> {
        self.by_kind.get(kind).or(self.any.as_ref()).cloned()
    }
}
