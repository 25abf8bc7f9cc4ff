use crate::job_numbers::{Names, numbers};
use napi::bindgen_prelude::Float64Array;
use napi_derive::napi;
use serde::Serialize;
use serde_json::{json, value::RawValue};
use windlass::{Context, Timestamp, lend::LentJob};
use windlass_bridge::{Exchange, Told};

/// What an exchange brought. Everything about its jobs in one array, one list and one text, because that is what crosses fast.
#[napi(object)]
pub struct Batch {
    /// Eleven numbers for each job.
    pub numbers: Float64Array,
    /// How many names are known: those that were told beyond as many are forgotten.
    pub known: u32,
    /// Further ones that `numbers` refer to, in order.
    pub names: Vec<String>,
    /// The args of all jobs: a JSON array.
    pub args: String,
    /// `[[index, {key, meta, tags, expires_at}]]` of the jobs that have any of these, as JSON.
    pub attributes: Option<String>,
    /// `[[ticket, reason or null]]`, as JSON: jobs that should stop, and such that were taken away.
    pub told: Option<String>,
    /// Further jobs wait for somebody with room.
    pub more: bool,
    /// The worker ended.
    pub closed: bool,
}

#[derive(Serialize)]
struct Attributes<'a> {
    key: Option<&'a str>,
    meta: Option<&'a RawValue>,
    tags: &'a [String],
    expires_at: Option<Timestamp>,
}

/// `None` where there is nothing to be said.
pub(crate) fn batch(exchange: &Exchange, names: &mut Names) -> Option<Batch> {
    let Exchange { jobs, told, more, closed, .. } = exchange;
    if jobs.is_empty() && told.is_empty() && !more && !closed {
        return None;
    }
    let (args, ends) = args(jobs);
    let (known, mut new) = (names.known() as u32, Vec::new());
    let numbers = Float64Array::new(numbers(jobs, &ends, names, &mut new));
    let told = (!told.is_empty()).then(|| json!(told.iter().map(entry).collect::<Vec<_>>()).to_string());
    Some(Batch {
        numbers,
        known,
        names: new,
        args,
        attributes: attributes(jobs),
        told,
        more: *more,
        closed: *closed,
    })
}

/// All args as one JSON array, and where in it those of each job end, in UTF-16 units.
fn args(jobs: &[LentJob]) -> (String, Vec<usize>) {
    let mut all = String::with_capacity(2 + jobs.iter().map(|job| job.args.len() + 1).sum::<usize>());
    let (mut ends, mut units) = (Vec::with_capacity(jobs.len()), 0);
    for job in jobs {
        all.push(if all.is_empty() { '[' } else { ',' });
        // What is no UTF-8 is no JSON either: its job alone fails.
        let args = String::from_utf8_lossy(&job.args);
        units += 1 + if args.is_ascii() { args.len() } else { args.encode_utf16().count() };
        ends.push(units);
        all.push_str(&args);
    }
    all.push_str(if all.is_empty() { "[]" } else { "]" });
    (all, ends)
}

fn attributes(jobs: &[LentJob]) -> Option<String> {
    let with = |(index, job): (usize, &LentJob)| {
        let context: &Context = &job.context;
        let (key, meta) = (context.key().is_some(), context.meta().is_some());
        let any = key || meta || !context.tags().is_empty() || context.expires_at().is_some();
        any.then(|| (index, job.context.clone()))
    };
    let with: Vec<_> = jobs.iter().enumerate().filter_map(with).collect();
    let of = |context: &'_ Context| {
        let meta = context.meta().and_then(|meta| serde_json::from_str::<&RawValue>(meta.as_str()).ok());
        let attributes =
            Attributes { key: context.key(), meta, tags: context.tags(), expires_at: context.expires_at() };
        serde_json::to_string(&attributes).unwrap_or_else(|_| "{}".to_owned())
    };
    let all: Vec<_> = with.iter().map(|(index, context)| format!("[{index},{}]", of(context))).collect();
    (!all.is_empty()).then(|| format!("[{}]", all.join(",")))
}

fn entry(told: &Told) -> serde_json::Value {
    match told {
        Told::Cancel { ticket, reason } => json!([ticket, reason]),
        Told::Dropped { ticket } => json!([ticket, null]),
    }
}
