//! The lines of `windlass enqueue --many`: an error names the line, and a refused batch is not stored.

use std::{cell::RefCell, io::BufReader};
use windlass::{EnqueuedOnce, Error, ErrorKind, JobId, Limits, NewJob};

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "{\"kind\":\"a\"}\n",
    "{\"kind\":\"a\"}\r\n",
    "{\"kind\":\"a\"}\n",
    "{\"kind\":\"a\",\"args\":[1,{\"b\":null}]}\n",
    "{\"kind\":\"a\",\"queue\":\"q\",\"priority\":-3,\"max_attempts\":2}\n",
    "{\"kind\":\"a\",\"delay_ms\":5}\n",
    "{\"kind\":\"a\",\"scheduled_at\":\"2031-01-01T00:00:00Z\"}\n",
    "\n",
    " \t\r\n",
    "\r",
    "\n\n\n",
    "{\"kind\":\"a b\"}\n",
    "{\"kind\":1}\n",
    "{\"kind\":\"a\",\"kind\":\"b\"}\n",
    "{\"kind\":\"a\",\"args\":\"\\u0000\"}\n",
    "{\"kind\":\"\\u0000\"}\n",
    "{\"kind\":\"\\ud800\"}\n",
    "{\"kind\":\"a\",\"priority\":1e400}\n",
    "\"kind\"",
    "\u{feff}",
    "\0",
    "{\"kind\":\"a\",\"args\":",
    "[[[[[[[[[[[[[[[[[[[[",
    "]]]]]]]]]]]]]]]]]]]]",
    "}",
    "{",
    "{\"kind\":\"a\"}",
    "null\n",
    "{}\n",
    "{\"kind\":\"a\",\"delay_ms\":18446744073709551615}\n",
    "{\"kind\":\"a\",\"max_attempts\":0}\n",
    "{\"kind\":\"a\",\"unique_key\":\"b\"}\n",
    "{\"kind\":\"a\",\"unique_args\":true,\"on_conflict\":\"error\"}\n",
    "{\"kind\":\"a\",\"unique_fields\":[\"b\"],\"args\":{\"b\":1},\"unique_for_ms\":5}\n",
    "{\"kind\":\"a\",\"unique_fields\":[\"c\"]}\n",
    "{\"kind\":\"a\",\"unique_in\":\"queue\"}\n",
];

/// As the command has it.
const BATCH: usize = 5_000;

/// Reads the bytes as the command does; behind so many good lines that several batches are made, when their
/// number says so.
pub fn body(data: &[u8]) {
    let good = if data.len() % 32 == 1 { BATCH - 2 } else { 0 };
    let mut input = b"{\"kind\":\"k\"}\n".repeat(good);
    input.extend(data);
    let stored = read(&input, u64::MAX);
    if let Some(first) = stored.first() {
        // The same while the store refuses the second batch, and then the first.
        let second = first.lines + 1;
        assert!(read(&input, second).len() <= 1);
        assert!(read(&input, 1).is_empty());
    }
}

struct Batch {
    first_line: u64,
    lines: u64,
    jobs: usize,
}

/// What is stored of the input by a store that refuses the batch of line `refused` and those behind it.
fn read(input: &[u8], refused: u64) -> Vec<Batch> {
    let batches = RefCell::new(Vec::<Batch>::new());
    let store = async |jobs: Vec<NewJob>, first_line: u64| {
        if first_line >= refused {
            return Err(Error::new(ErrorKind::StorageFull, "full"));
        }
        Limits::default().check(&jobs).expect("only jobs that a store takes");
        assert!((1..=BATCH).contains(&jobs.len()), "a batch of {}", jobs.len());
        let mut batches = batches.borrow_mut();
        let from = batches.iter().map(|batch| batch.jobs as i64).sum::<i64>();
        let lines = lines_of(input, first_line, jobs.len());
        let ids = (from..).map(JobId).take(jobs.len()).collect();
        batches.push(Batch { first_line, lines: first_line + lines - 1, jobs: jobs.len() });
        Ok(EnqueuedOnce { ids, repeated: false })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let outcome = runtime.block_on(windlass_cli::read_many(&mut BufReader::new(input), &store));
    let batches = batches.into_inner();
    let jobs = batches.iter().map(|batch| batch.jobs).sum::<usize>();
    for pair in batches.windows(2) {
        assert_eq!(pair[1].first_line, pair[0].lines + 1, "a line between two batches is missing");
    }
    match outcome {
        Ok(enqueued) => {
            assert_eq!(enqueued as usize, jobs);
            let full = input.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
            assert_eq!(full.count(), jobs, "as many jobs as lines that say something");
        }
        Err((line, message)) => {
            let line = line.expect("an error names its line") as usize;
            let text = input.split(|byte| *byte == b'\n').nth(line - 1).expect("a line that exists");
            assert!(message.contains(&format!("{jobs} jobs were enqueued before")), "{message}");
            assert!(message.contains("line"), "{message}");
            // A bad line may come before the store had a reason to refuse.
            let store_refused = message.contains(": full;");
            assert!(!store_refused || refused != u64::MAX, "{message}");
            if !store_refused {
                assert!(!text.trim_ascii().is_empty(), "line {line} is empty: {message}");
                refuses(text, &message);
            }
        }
    }
    batches
}

/// The line is refused alone as well, for the same reason.
fn refuses(line: &[u8], message: &str) {
    let store = async |_: Vec<NewJob>, _: u64| -> windlass::Result<EnqueuedOnce> {
        panic!("a line that is refused among others is stored alone")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let alone = runtime.block_on(windlass_cli::read_many(&mut BufReader::new(line), &store));
    let (number, why) = alone.expect_err("it is refused alone as well");
    assert_eq!(number, Some(1));
    let reason =
        |text: &str| text.split_once(": ").and_then(|(_, rest)| Some(rest.rsplit_once("; ")?.0.to_owned()));
    assert_eq!(reason(&why), reason(message));
}

/// How many lines from `first` on hold this many jobs, empty ones before the last job included.
fn lines_of(input: &[u8], first: u64, jobs: usize) -> u64 {
    let behind = input.split(|byte| *byte == b'\n').skip(first as usize - 1);
    let mut left = jobs;
    let mut lines = 0;
    for line in behind {
        lines += 1;
        left -= usize::from(!line.trim_ascii().is_empty());
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0, "more jobs than lines");
    lines
}
