use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::Arc,
};
use windlass_core::{Error, ErrorKind, Result};

/// State that a worker shares with its handlers, by type: what [`WorkerBuilder::data`] was given.
///
/// A handler takes it as one of its arguments. Cheap to clone: an `Arc` inside, and the state behind it
/// by `Deref`.
///
/// ```
/// use windlass::{Client, Data, Job, Worker};
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// struct Greet { name: String }
///
/// struct Greeting(&'static str);
///
/// async fn greet(job: Greet, greeting: Data<Greeting>) {
///     println!("{}, {}", greeting.0.0, job.name);
/// }
///
/// # async fn example(client: Client) -> windlass::Result<()> {
/// let worker = Worker::builder(&client).data(Greeting("Hello")).handle(greet).start().await?;
/// # Ok(()) }
/// ```
///
/// [`WorkerBuilder::data`]: crate::WorkerBuilder::data
pub struct Data<T>(pub Arc<T>);

impl<T> Deref for Data<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Data<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Data").field(&self.0).finish()
    }
}

/// Everything that a worker's handlers share, one value of each type.
///
/// ```
/// # use windlass::{DataSet, Data};
/// fn look(data: &DataSet) -> windlass::Result<Data<String>> {
///     data.get::<String>()
/// }
/// ```
#[derive(Default)]
pub struct DataSet {
    by_type: BTreeMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
    /// The first type that was given twice.
    doubled: Option<&'static str>,
}

impl DataSet {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let name = type_name::<T>();
        if self.by_type.insert(TypeId::of::<T>(), (name, Arc::new(value))).is_some() {
            self.doubled.get_or_insert(name);
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Some(name) = self.doubled else { return Ok(()) };
        let message =
            format!("data of type {name} was given twice; keep one, or wrap each in a type of its own");
        Err(Error::new(ErrorKind::InvalidOption, message))
    }

    /// The value of type `T`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the worker was given none; the message names the type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Result<Data<T>> {
        let found = self.by_type.get(&TypeId::of::<T>()).map(|(_, value)| Arc::clone(value));
        found.and_then(|value| value.downcast().ok()).map(Data).ok_or_else(|| {
            let wanted = type_name::<T>();
            let mut known: Vec<_> = self.by_type.values().map(|(name, _)| *name).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("it takes data of type {wanted}; add it with .data(..); there is {known}");
            Error::new(ErrorKind::InvalidOption, message)
        })
    }
}

impl fmt::Debug for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_type.values().map(|(name, _)| name)).finish()
    }
}
