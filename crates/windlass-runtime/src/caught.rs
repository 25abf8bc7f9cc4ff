use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs code of the user's, which may panic.
///
/// ```
/// assert_eq!(windlass_runtime::caught(|| 7), Ok(7));
/// let panicked = windlass_runtime::caught(|| panic!("no route"));
/// assert_eq!(panicked, Err("handler panicked: no route".to_owned()));
/// ```
///
/// # Errors
/// The text that an attempt fails with whose handler panicked.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panic_text(&*panic))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("handler panicked: {}", text.unwrap_or("with something that is no text"))
}
