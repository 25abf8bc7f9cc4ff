//! The derive macro of [Windlass](https://docs.rs/windlass), which re-exports it: say `#[derive(windlass::Job)]`.

mod attributes;
mod backoff;
mod derive;
mod unique;
mod value;

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
/// | `key = "tenant"` | `key()`: the value of this field (its name in Rust), as text, is the job's key | it has none |
/// | `encrypted` | `ENCRYPTED`: args and result are encrypted | they are not |
/// | `unique`, `unique(fields("user"), until = "started")` | `unique()`, with the options below | it is not unique |
///
/// | option of `unique` | |
/// |---|---|
/// | `args` (default), `fields("user", "day")`, `key = "nightly"` | what makes the key |
/// | `scope = "kind"` (default), `"queue"` | among which jobs it is unique |
/// | `until = "finished"` (default), `"started"`, or `window = "20h"` | for how long a job has its key |
/// | `on_conflict = "keep"` (default), `"replace"`, `"extend"`, `"error"` | what becomes of a job that finds it taken |
/// | `max_wait = "1m"` | with `"replace"`: the job is put off no further |
///
/// Fields go by their names in JSON, as serde writes them.
///
/// Values are checked when the type is compiled. A kind is stored with each job: whoever renames a type that
/// relies on its name has to write the old one down as `kind`, or let the stored jobs run out first.
///
/// For all else, such as a retry policy without jitter or a unique key that is made at run time, implement the trait `Job` by hand; it is one constant.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive::job(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
