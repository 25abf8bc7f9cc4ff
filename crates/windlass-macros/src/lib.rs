//! The derive macro of [Windlass](https://docs.rs/windlass), which re-exports it: say `#[derive(windlass::Job)]`.

mod attributes;
mod backoff;
mod derive;

/// Makes a type a job.
///
/// | attribute | the constant it sets | without it |
/// |---|---|---|
/// | `kind = "mail.send"` | `KIND`, by which workers find the handler | the type's name in snake_case: `SendMail` is `send_mail` |
/// | `queue = "mail"` | `QUEUE` | `default` |
/// | `priority = 5` | `PRIORITY`; lower runs first | 0 |
/// | `max_attempts = 3` | `MAX_ATTEMPTS` | 20 |
/// | `timeout = "30s"` | `TIMEOUT`, in words such as `500ms`, `5m` or `1h 30m` | as the worker says |
/// | `backoff = "linear:10s"` | `retry_policy()`: `exponential`, `linear` or `fixed`, the first delay, and the longest if it is not a day: `exponential:15s:1h` | as the worker says |
/// | `retry_delay = path::to::function` | `retry_delay()`, by a `fn(attempt: u16, error: &str) -> Duration` | as the retry policy says |
/// | `encrypted` | `ENCRYPTED`: args and result are encrypted | they are not |
///
/// Values are checked when the type is compiled. A kind is stored with each job: whoever renames a type that
/// relies on its name has to write the old one down as `kind`, or let the stored jobs run out first.
///
/// For all else, such as a retry policy without jitter, implement the trait `Job` by hand; it is one constant.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive::job(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
