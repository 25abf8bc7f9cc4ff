use super::{
    enqueued::{EnqueuedJob, enqueued, waiting},
    job_line::JobLine,
};
use crate::{Client, Job};
use std::fmt::Write;

/// The most jobs that a message lists.
const MOST_LINES: usize = 50;

/// Panics unless a job that fits [is enqueued](crate::testing::enqueued); the message lists what is enqueued instead.
/// Gives back the jobs that fit, a `Vec` of [`EnqueuedJob`](crate::testing::EnqueuedJob), for a closer look.
///
/// The first argument is a [`Client`](crate::Client). The second is a job's type, or a pattern with an optional guard, as
/// `matches!` takes them; a type and a pattern where the pattern alone looks like a type. For async functions.
///
/// ```
/// use std::time::Duration;
/// use windlass::{Job, testing::{self, assert_enqueued}};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendMail { to: String }
/// # impl Job for SendMail { const KIND: &'static str = "mail.send"; }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// enum CleanUp { All, Older { days: u32 } }
/// # impl Job for CleanUp { const KIND: &'static str = "clean_up"; }
///
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let client = testing::client();
/// client.enqueue(CleanUp::All).await?;
/// client.enqueue(CleanUp::Older { days: 7 }).await?;
/// client.enqueue_with(SendMail { to: "ada".into() }, |job| job.with_delay(Duration::from_secs(60))).await?;
///
/// assert_enqueued!(client, CleanUp);
/// assert_enqueued!(client, CleanUp::Older { days } if *days > 5);
/// assert_enqueued!(client, CleanUp, CleanUp::All);
/// let mails = assert_enqueued!(client, SendMail { to } if to == "ada");
/// assert!(mails.len() == 1 && mails[0].record.scheduled_at.is_some());
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! assert_enqueued {
    ($client:expr, $($kind_or_pattern:tt)+) => {
        match $crate::__matching!(found, $client, $($kind_or_pattern)+).await {
            Ok(found) => found,
            Err(message) => panic!("{message}"),
        }
    };
}

/// Panics when a job that fits [is enqueued](crate::testing::enqueued), and lists those that are. Takes the same as
/// [`assert_enqueued!`](crate::assert_enqueued).
///
/// ```
/// use windlass::testing::{self, assert_not_enqueued};
/// # use windlass::Job;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct SendMail { to: String }
/// # impl Job for SendMail { const KIND: &'static str = "mail.send"; }
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let client = testing::client();
/// assert_not_enqueued!(client, SendMail);
/// client.enqueue(SendMail { to: "ada".into() }).await?;
/// assert_not_enqueued!(client, SendMail { to } if to == "bob");
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! assert_not_enqueued {
    ($client:expr, $($kind_or_pattern:tt)+) => {
        if let Some(message) = $crate::__matching!(excess, $client, $($kind_or_pattern)+).await {
            panic!("{message}");
        }
    };
}

/// Calls [`found`] or [`excess`] with what the assertions were given.
#[doc(hidden)]
#[macro_export]
macro_rules! __matching {
    ($check:ident, $client:expr, $($kind:ident)::+ $(,)?) => {
        $crate::__matching!(@ $check, $client, $($kind)::+, stringify!($($kind)::+), _)
    };
    ($check:ident, $client:expr, $($kind:ident)::+, $fits:pat $(if $guard:expr)? $(,)?) => {
        $crate::__matching!(@ $check, $client, $($kind)::+, stringify!($fits $(if $guard)?), $fits $(if $guard)?)
    };
    ($check:ident, $client:expr, $fits:pat $(if $guard:expr)? $(,)?) => {
        $crate::__matching!(@ $check, $client, _, stringify!($fits $(if $guard)?), $fits $(if $guard)?)
    };
    (@ $check:ident, $client:expr, $kind:ty, $words:expr, $fits:pat $(if $guard:expr)?) => {
        $crate::testing::$check::<$kind>(&$client, $words, |job| {
            #[allow(unreachable_patterns, reason = "the pattern may fit everything")]
            match job {
                $fits $(if $guard)? => true,
                _ => false,
            }
        })
    };
}

/// The jobs that fit, or what to say when there is none.
#[doc(hidden)]
pub async fn found<J: Job>(
    client: &Client,
    wanted: &str,
    fits: impl Fn(&J) -> bool,
) -> Result<Vec<EnqueuedJob<J>>, String> {
    let found = matching(client, fits).await?;
    if !found.is_empty() {
        return Ok(found);
    }
    let jobs = waiting(client, None).await.map_err(|error| error.to_string())?;
    let mut message = format!("no job {wanted} of kind {:?} is enqueued; ", J::KIND);
    match jobs.len() {
        0 => message.push_str("no job is"),
        count => {
            let _ = write!(message, "enqueued are:");
            lines(&mut message, jobs.iter().take(MOST_LINES).map(JobLine), count);
        }
    }
    Err(message)
}

/// What to say when there are jobs that fit.
#[doc(hidden)]
pub async fn excess<J: Job>(client: &Client, unwanted: &str, fits: impl Fn(&J) -> bool) -> Option<String> {
    match matching(client, fits).await {
        Ok(found) if found.is_empty() => None,
        Ok(found) => {
            let mut message = format!("no job {unwanted} should be enqueued, but these are:");
            lines(&mut message, found.iter().take(MOST_LINES).map(|job| JobLine(&job.record)), found.len());
            Some(message)
        }
        Err(message) => Some(message),
    }
}

async fn matching<J: Job>(client: &Client, fits: impl Fn(&J) -> bool) -> Result<Vec<EnqueuedJob<J>>, String> {
    let all = enqueued::<J>(client).await;
    let all = all.map_err(|error| format!("cannot tell what is enqueued: {error}"))?;
    Ok(all.into_iter().filter(|job| fits(&job.args)).collect())
}

fn lines<'a>(message: &mut String, jobs: impl Iterator<Item = JobLine<'a>>, count: usize) {
    for job in jobs {
        let _ = write!(message, "\n  {job}");
    }
    if count > MOST_LINES {
        let _ = write!(message, "\n  and {} more", count - MOST_LINES);
    }
}
