use crate::{
    Batch, BatchFn, DataSet, Middleware, RawJob,
    batch::{Batched, Joining, Rules, Shared},
    encryption::{Codec, OpenHandler, Opening},
    lent::{LentBatches, LentHandler, lend_batch},
    middleware::Layered,
    ruled::{KindRules, Ruled},
};
use std::{collections::HashMap, sync::Arc};
use windlass_core::{Error, ErrorKind, Limits, Result};
use windlass_runtime::{Batching, Dispatch, Handler, lend::Lender};

/// Makes a handler when all data is known, with all layers around it.
type Make = Box<dyn FnOnce(&DataSet, &Arc<Codec>, &Layers) -> Result<Arc<dyn Handler>> + Send>;
/// Puts a middleware around a handler.
type Wrap = Box<dyn Fn(Arc<dyn Handler>) -> Arc<dyn Handler> + Send>;

/// What runs around every handler, outermost first.
#[derive(Default)]
struct Layers(Vec<Wrap>);

impl Layers {
    fn around(&self, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        self.0.iter().rev().fold(handler, |inner, wrap| wrap(inner))
    }
}

/// Puts a middleware around a handler.
fn layer(middleware: impl Middleware) -> Wrap {
    let middleware = Arc::new(middleware);
    Box::new(move |inner| Arc::new(Layered { middleware: Arc::clone(&middleware), inner }))
}

/// What a builder was told of its worker's handlers.
#[derive(Default)]
pub(crate) struct Registry {
    by_kind: HashMap<String, Make>,
    any: Option<Make>,
    /// The first kind that was given two handlers.
    doubled: Option<String>,
    layers: Layers,
    batched: HashMap<String, Result<Batching>>,
    rules: HashMap<String, KindRules>,
    pub(crate) data: DataSet,
}

impl Registry {
    /// `encrypted`: whether the kind says that its jobs are.
    pub(crate) fn insert<H: OpenHandler>(
        &mut self,
        kind: String,
        encrypted: bool,
        make: impl FnOnce(&DataSet) -> Result<H> + Send + 'static,
    ) {
        self.insert_made(kind, boxed(encrypted, make));
    }

    /// A handler of batches.
    pub(crate) fn insert_batched<J: Send + 'static, X: 'static, F: BatchFn<J, X>>(
        &mut self,
        kind: String,
        encrypted: bool,
        batching: Result<Batching>,
        make: impl FnOnce(&DataSet) -> Result<Shared<J, X, F>> + Send + 'static,
    ) {
        self.batched.insert(kind.clone(), batching);
        let make: Make = Box::new(move |data, codec, layers| {
            let joining = Joining(Arc::new(make(data)?));
            let shared = Arc::clone(&joining.0);
            let opening = Opening { handler: joining, codec: Arc::clone(codec), encrypted };
            Ok(Arc::new(Batched::new(layers.around(Arc::new(opening)), shared)))
        });
        self.insert_made(kind, make);
    }

    /// Foreign code that runs batches.
    pub(crate) fn insert_lent_batch(
        &mut self,
        kind: String,
        encrypted: bool,
        batching: Result<Batching>,
        lender: Lender,
    ) {
        self.batched.insert(kind.clone(), batching);
        let make: Make = Box::new(move |data, codec, layers| {
            let (one, codec) = (LentHandler(lender.clone()), Arc::clone(codec));
            let alone = Arc::new(Opening { handler: one, codec: Arc::clone(&codec), encrypted });
            let function = move |batch: Batch<RawJob>| lend_batch(&lender, batch);
            let shared = Arc::new(Shared::new(function, data, Ok, Rules::default())?);
            let opening = Opening { handler: Joining(Arc::clone(&shared)), codec, encrypted };
            let together = Arc::new(Batched::new(layers.around(Arc::new(opening)), shared));
            Ok(Arc::new(LentBatches { alone: layers.around(alone), together }))
        });
        self.insert_made(kind, make);
    }

    fn insert_made(&mut self, kind: String, make: Make) {
        if self.by_kind.contains_key(&kind) {
            self.doubled.get_or_insert_with(|| kind.clone());
        }
        self.by_kind.insert(kind, make);
    }

    pub(crate) fn insert_any<H: OpenHandler>(
        &mut self,
        make: impl FnOnce(&DataSet) -> Result<H> + Send + 'static,
    ) {
        if self.any.replace(boxed(false, make)).is_some() {
            self.doubled.get_or_insert_with(|| "any".to_owned());
        }
    }

    /// How many handlers there are.
    pub(crate) fn handlers(&self) -> usize {
        self.by_kind.len() + usize::from(self.any.is_some())
    }

    pub(crate) fn layer(&mut self, middleware: impl Middleware) {
        self.layers.0.push(layer(middleware));
    }

    /// What holds for the jobs of a kind that say nothing themselves.
    pub(crate) fn rules(&mut self, kind: String) -> &mut KindRules {
        self.rules.entry(kind).or_default()
    }

    /// A layer around all others.
    #[cfg(feature = "otel")]
    pub(crate) fn outermost(&mut self, middleware: impl Middleware) {
        self.layers.0.insert(0, layer(middleware));
    }

    /// The handlers, or what is wrong with them.
    pub(crate) fn build(self, codec: Codec) -> Result<Handlers> {
        let codec = Arc::new(codec);
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if let Some(kind) = &self.doubled {
            return refuse(format!("kind {kind:?} has two handlers; keep one"));
        }
        if self.by_kind.is_empty() && self.any.is_none() {
            return refuse(
                "the worker has no handler; add one with handle, handle_kind or handle_any".to_owned(),
            );
        }
        let unhandled = self.rules.keys().filter(|kind| !self.by_kind.contains_key(*kind));
        let of_any: Vec<String> = unhandled.cloned().collect();
        if let Some(kind) = of_any.first().filter(|_| self.any.is_none()) {
            return refuse(format!("kind {kind:?} has a timeout or a retry policy, and no handler"));
        }
        self.by_kind.keys().chain(&of_any).try_for_each(|kind| Limits::check_kind_name(kind))?;
        self.data.check()?;
        let (data, layers) = (&self.data, &self.layers);
        let made = |make: Make| make(data, &codec, layers);
        let ruled = |kind: &str, inner: Arc<dyn Handler>| match self.rules.get(kind) {
            Some(rules) => checked(Arc::new(Ruled { rules: *rules, inner })),
            None => checked(inner),
        };
        let any = self.any.map(|make| made(make).and_then(checked).map_err(named("any"))).transpose()?;
        let mut by_kind = HashMap::new();
        for (kind, make) in self.by_kind {
            let handler = made(make).and_then(|handler| ruled(&kind, handler)).map_err(named(&kind))?;
            by_kind.insert(kind, handler);
        }
        for kind in of_any {
            if let Some(any) = &any {
                let handler = ruled(&kind, Arc::clone(any)).map_err(named(&kind))?;
                by_kind.insert(kind, handler);
            }
        }
        let batched = self.batched.into_iter().map(|(kind, batching)| match batching {
            Ok(batching) => Ok((kind, batching)),
            Err(error) => {
                let message = format!("the batches of kind {kind:?} cannot be: {error}");
                Err(Error::new(ErrorKind::InvalidOption, message))
            }
        });
        Ok(Handlers { by_kind, any, batched: batched.collect::<Result<_>>()? })
    }
}

/// What a kind says of its jobs has to be possible.
fn checked(handler: Arc<dyn Handler>) -> Result<Arc<dyn Handler>> {
    handler.timeout().map_or(Ok(()), Limits::check_timeout)?;
    handler.retry_policy().map_or(Ok(()), Limits::check_retry_policy)?;
    Ok(handler)
}

/// Whose handler it is that an error is about.
fn named(kind: &str) -> impl Fn(Error) -> Error {
    move |error| {
        let message = format!("the handler of kind {kind:?} cannot start: {error}");
        Error::new(error.kind(), message).with_source(error)
    }
}

fn boxed<H: OpenHandler>(encrypted: bool, make: impl FnOnce(&DataSet) -> Result<H> + Send + 'static) -> Make {
    Box::new(move |data, codec, layers| {
        let handler = make(data)?;
        Ok(layers.around(Arc::new(Opening { handler, codec: Arc::clone(codec), encrypted })))
    })
}

/// The handlers of a worker, by kind.
pub(crate) struct Handlers {
    by_kind: HashMap<String, Arc<dyn Handler>>,
    any: Option<Arc<dyn Handler>>,
    batched: HashMap<String, Batching>,
}

impl Dispatch for Handlers {
    fn kinds(&self) -> Vec<String> {
        match self.any {
            Some(_) => Vec::new(),
            None => self.by_kind.keys().cloned().collect(),
        }
    }

    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>> {
        self.by_kind.get(kind).or(self.any.as_ref()).cloned()
    }

    fn batched(&self) -> HashMap<String, Batching> {
        self.batched.clone()
    }
}
