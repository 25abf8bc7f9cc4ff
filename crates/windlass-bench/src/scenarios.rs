//! The scenarios. Most points take some seconds on two cores that PostgreSQL shares; where a seed's own count
//! would be over sooner, they have more jobs.

use crate::scenario::{Point, Scenario};
use windlass_cli::failure::{Failure, Outcome};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "enqueue-one",
        about: "one client, one job in a call, each its own durable commit",
        seed: "BullMQ against Oban: 5,800 / 2,900 jobs/s",
        points: &[Point { name: "1 client", line: "enqueue --mode single --clients 1 --jobs 20000" }],
    },
    Scenario {
        name: "enqueue-concurrent",
        about: "ten clients, one job in a call",
        seed: "BullMQ against Oban: 17,700 / 11,200 jobs/s",
        points: &[Point { name: "10 clients", line: "enqueue --mode single --clients 10 --jobs 100000" }],
    },
    Scenario {
        name: "enqueue-bulk",
        about: "one client, many jobs in a call",
        seed: "BullMQ against Oban, by 1,000: 51,400 / 36,800 jobs/s; Graphile Worker, one call of 200,000: 202,000 jobs/s",
        points: &[
            Point { name: "by 1,000", line: "enqueue --mode bulk --clients 1 --batch 1000 --jobs 2000000" },
            Point { name: "by 10,000", line: "enqueue --mode bulk --clients 1 --batch 10000 --jobs 2000000" },
            Point {
                name: "by 200,000",
                line: "enqueue --mode bulk --clients 1 --batch 200000 --jobs 2000000",
            },
        ],
    },
    Scenario {
        name: "enqueue-bulk-concurrent",
        about: "ten clients, 1,000 jobs in a call",
        seed: "BullMQ against Oban: 63,400 / 89,600 jobs/s",
        points: &[Point {
            name: "10 clients",
            line: "enqueue --mode bulk --clients 10 --batch 1000 --jobs 2000000",
        }],
    },
    Scenario {
        name: "enqueue-batch-sizes",
        about: "ten clients, calls of different sizes",
        seed: "BullMQ against Oban: 46,300 / 57,400 by 100, 54,400 / 63,700 by 250, 58,600 / 57,800 by 500, 57,000 / 51,000 by 1,000, 57,300 / 40,400 jobs/s by 2,000; Oban inserts by 5,000",
        points: &[
            Point { name: "by 100", line: "enqueue --mode bulk --clients 10 --batch 100 --jobs 1000000" },
            Point { name: "by 250", line: "enqueue --mode bulk --clients 10 --batch 250 --jobs 1000000" },
            Point { name: "by 500", line: "enqueue --mode bulk --clients 10 --batch 500 --jobs 2000000" },
            Point { name: "by 1,000", line: "enqueue --mode bulk --clients 10 --batch 1000 --jobs 2000000" },
            Point { name: "by 2,000", line: "enqueue --mode bulk --clients 10 --batch 2000 --jobs 2000000" },
            Point { name: "by 5,000", line: "enqueue --mode bulk --clients 10 --batch 5000 --jobs 2000000" },
        ],
    },
    Scenario {
        name: "enqueue-connections",
        about: "1 to 16 connections, 100 jobs in a call",
        seed: "BullMQ Elixir, by 100: 24,000 / 39,000 / 54,000 / 58,000 / 56,000 jobs/s with 1 / 2 / 4 / 8 / 16",
        points: &[
            Point { name: "1", line: "enqueue --mode bulk --batch 100 --clients 1 --jobs 500000" },
            Point { name: "2", line: "enqueue --mode bulk --batch 100 --clients 2 --jobs 500000" },
            Point { name: "4", line: "enqueue --mode bulk --batch 100 --clients 4 --jobs 500000" },
            Point { name: "8", line: "enqueue --mode bulk --batch 100 --clients 8 --jobs 500000" },
            Point { name: "16", line: "enqueue --mode bulk --batch 100 --clients 16 --jobs 500000" },
        ],
    },
    Scenario {
        name: "drain",
        about: "a million jobs without work, one queue, one worker",
        seed: "Oban: 1,000,000 in 30 s (32,000 jobs/s); Graphile Worker with batching, 4 processes: 184,000 jobs/s, without 15,600; BullMQ against Oban at 100: 25,600 / 7,100 jobs/s",
        points: &[Point { name: "no-op", line: "drain --jobs 1000000 --concurrency 100" }],
    },
    Scenario {
        name: "drain-concurrency",
        about: "three million jobs without work, 10 to 3,000 at once",
        seed: "Oban: 57 s at 230 (17,700 jobs/s), 30 s at 2,000, slower above; BullMQ against Oban at 10: 14,600 / 1,200 jobs/s",
        points: &[
            Point { name: "10", line: "drain --jobs 3000000 --concurrency 10" },
            Point { name: "100", line: "drain --jobs 3000000 --concurrency 100" },
            Point { name: "230", line: "drain --jobs 3000000 --concurrency 230" },
            Point { name: "500", line: "drain --jobs 3000000 --concurrency 500" },
            Point { name: "1,000", line: "drain --jobs 3000000 --concurrency 1000" },
            Point { name: "2,000", line: "drain --jobs 3000000 --concurrency 2000" },
            Point { name: "3,000", line: "drain --jobs 3000000 --concurrency 3000" },
        ],
    },
    Scenario {
        name: "drain-workers",
        about: "1, 5 and 10 workers in a process, 500 jobs at once in each",
        seed: "BullMQ Elixir: 4,111 / 12,363 / 16,501 jobs/s",
        points: &[
            Point { name: "1", line: "drain --jobs 3000000 --workers 1 --concurrency 500" },
            Point { name: "5", line: "drain --jobs 3000000 --workers 5 --concurrency 500" },
            Point { name: "10", line: "drain --jobs 3000000 --workers 10 --concurrency 500" },
        ],
    },
    Scenario {
        name: "drain-processes",
        about: "1, 2 and 4 worker processes",
        seed: "Que, 3 processes on 2 cores: 1,564 jobs/s (11 on 16 cores: 7,270); Graphile Worker, 4 processes: 184,000 jobs/s",
        points: &[
            Point { name: "1", line: "drain --jobs 3000000 --processes 1 --concurrency 100" },
            Point { name: "2", line: "drain --jobs 3000000 --processes 2 --concurrency 100" },
            Point { name: "4", line: "drain --jobs 3000000 --processes 4 --concurrency 100" },
        ],
    },
    Scenario {
        name: "drain-commit",
        about: "commits that wait for the disk or do not, slots that wait for their settlement or do not",
        seed: "Que on 2 cores: 1,564 jobs/s with synchronous_commit on, 2,407 off",
        points: &[
            Point { name: "on, pipelined", line: "drain --jobs 1000000 --settling pipelined" },
            Point { name: "on, strict", line: "drain --jobs 1000000 --settling strict" },
            Point {
                name: "off, pipelined",
                line: "drain --jobs 1000000 --settling pipelined --async-commit",
            },
            Point { name: "off, strict", line: "drain --jobs 1000000 --settling strict --async-commit" },
        ],
    },
    Scenario {
        name: "work-10ms",
        about: "jobs that wait 10 ms, in percent of what the concurrency allows",
        seed: "BullMQ against Oban: 911 / 523 jobs/s at 10, 8,300 / 4,400 at 100 (83 % / 44 %)",
        points: &[
            Point { name: "10", line: "work --sleep-ms 10 --concurrency 10 --jobs 5000" },
            Point { name: "100", line: "work --sleep-ms 10 --concurrency 100 --jobs 50000" },
            Point { name: "500", line: "work --sleep-ms 10 --concurrency 500 --jobs 250000" },
        ],
    },
    Scenario {
        name: "work-cpu",
        about: "jobs that calculate 1,000 sines and cosines",
        seed: "BullMQ against Oban: 12,400 / 1,200 jobs/s at 10, 24,300 / 6,800 at 100",
        points: &[
            Point { name: "10", line: "work --cpu 1000 --concurrency 10 --jobs 300000" },
            Point { name: "100", line: "work --cpu 1000 --concurrency 100 --jobs 300000" },
        ],
    },
    Scenario {
        name: "mixed",
        about: "enqueueing and working at once: as fast as it goes, and on a schedule",
        seed: "none published; PgQ and Graphile Worker describe the load",
        points: &[
            Point { name: "as fast as it goes", line: "mixed --seconds 10 --backlog 20000" },
            Point { name: "10,000 jobs/s", line: "mixed --seconds 10 --rate 10000" },
            Point { name: "50,000 jobs/s", line: "mixed --seconds 10 --rate 50000" },
        ],
    },
    Scenario {
        name: "latency",
        about: "from enqueue to the start of the handler, the worker idle: one after the other, after a pause, and on a schedule",
        seed: "Graphile Worker, 1,000 samples: 4.2 ms on average, 13.8 ms at most",
        points: &[
            Point { name: "one by one", line: "latency --samples 1000" },
            Point { name: "10 ms apart", line: "latency --samples 1000 --gap 10ms" },
            Point { name: "on a schedule", line: "latency --samples 1000 --load 0" },
        ],
    },
    Scenario {
        name: "latency-load",
        about: "the same beside other jobs at half of what the machine carries",
        seed: "none published",
        points: &[Point { name: "50 %", line: "latency --samples 1000 --load 50" }],
    },
    Scenario {
        name: "startup",
        about: "starting and stopping a worker",
        seed: "Graphile Worker: 68 ms",
        points: &[Point { name: "1 worker", line: "startup --runs 20" }],
    },
    Scenario {
        name: "held-snapshot",
        about: "speed while another session holds a snapshot, as a long report does",
        seed: "none published; rows that are updated or deleted pile up behind a snapshot",
        points: &[
            Point { name: "drain, none", line: "drain --jobs 3000000" },
            Point { name: "drain, held", line: "drain --jobs 3000000 --hold-snapshot" },
            Point {
                name: "mixed, held after 10 s",
                line: "mixed --seconds 60 --backlog 20000 --hold-snapshot-after 10",
            },
        ],
    },
    Scenario {
        name: "backlog",
        about: "whether a deep backlog drains as fast as a shallow one",
        seed: "none published",
        points: &[
            Point { name: "100,000", line: "drain --jobs 100000" },
            Point { name: "1,000,000", line: "drain --jobs 1000000" },
            Point { name: "10,000,000", line: "drain --jobs 10000000" },
        ],
    },
    Scenario {
        name: "limit",
        about: "the ceiling: the same rows written and read, and commits of one row, without a queue",
        seed: "none published; every throughput here is to be read as a share of it",
        points: &[Point { name: "1,000,000 rows", line: "limit --jobs 1000000" }],
    },
    Scenario {
        name: "limited",
        about: "a queue with a limit that all workers share: no-op jobs beside the same without a limit; how much of the limit is used",
        seed: "none published; queues that count in a row for each job slow down by it",
        points: &[
            Point { name: "10,000 at once, no-op", line: "limited --limit 10000 --jobs 1000000" },
            Point {
                name: "100 at once, 10 ms",
                line: "limited --limit 100 --concurrency 200 --sleep-ms 10 --jobs 50000",
            },
            Point { name: "1,000 in a second", line: "limited --rate 1000 --jobs 20000" },
        ],
    },
    Scenario {
        name: "keys",
        about: "a queue whose jobs have keys: no-op jobs in turns of their keys beside the same without; a quiet key beside a million jobs of another",
        seed: "none published; what others have of it is sold, and counts in a row for each key",
        points: &[
            Point { name: "1 key", line: "keys --keys 1 --jobs 1000000" },
            Point { name: "100 keys", line: "keys --keys 100 --jobs 1000000" },
            Point { name: "1,000 keys", line: "keys --keys 1000 --jobs 1000000" },
            Point { name: "1,000 keys, one at a time", line: "keys --keys 1000 --serial --jobs 200000" },
            Point { name: "10,000 keys", line: "keys --keys 10000 --jobs 1000000" },
            Point { name: "100,000 keys of 10", line: "keys --keys 100000 --jobs 1000000" },
            Point {
                name: "a quiet key beside a busy one",
                line: "keys --noisy 200 --jobs 1000000 --sleep-ms 10",
            },
        ],
    },
    Scenario {
        name: "burst",
        about: "many jobs scheduled for one moment: how late they start",
        seed: "none published",
        points: &[
            Point { name: "1,000", line: "burst --jobs 1000" },
            Point { name: "10,000", line: "burst --jobs 10000" },
            Point { name: "100,000", line: "burst --jobs 100000" },
        ],
    },
    Scenario {
        name: "schedules",
        about: "1,000 schedules that tick in the same second, each second: from the tick to the start of the handler",
        seed: "none published",
        points: &[Point { name: "1,000 each second", line: "schedules --schedules 1000 --seconds 20" }],
    },
    Scenario {
        name: "unique",
        about: "unique jobs, each with a key of its own: by ten clients one in a call, and by 1,000",
        seed: "none published",
        points: &[
            Point {
                name: "one by one, 10 clients",
                line: "enqueue --unique --mode single --clients 10 --jobs 50000",
            },
            Point {
                name: "by 1,000, 1 client",
                line: "enqueue --unique --mode bulk --clients 1 --batch 1000 --jobs 300000",
            },
        ],
    },
    Scenario {
        name: "unique-race",
        about: "unique jobs of few keys from 8 connections while a worker runs what was stored: none doubled, none lost",
        seed: "none published",
        points: &[Point { name: "10,000 keys", line: "unique --keys 10000 --jobs 1000000" }],
    },
    Scenario {
        name: "cancel",
        about: "jobs that run are cancelled: the call, and until the handler's token fires",
        seed: "none published",
        points: &[
            Point { name: "alone", line: "cancel --samples 500" },
            Point { name: "1,000,000 jobs in the log", line: "cancel --samples 500 --depth 1000000" },
        ],
    },
    Scenario {
        name: "waiters",
        about: "many wait, each for a job of its own, while a worker runs them: from the handler's return until they are told",
        seed: "none published",
        points: &[
            Point { name: "one", line: "waiters --jobs 1" },
            Point { name: "10,000", line: "waiters --jobs 10000" },
        ],
    },
    Scenario {
        name: "events",
        about: "what happened to jobs without work, read from a cursor on: three events for each",
        seed: "none published",
        points: &[Point { name: "of 200,000 jobs", line: "events --jobs 200000" }],
    },
    Scenario {
        name: "size",
        about: "a busy queue beside much else in the store: drain, slowest claim and settle, size and memory",
        seed: "none published; a queue whose tables grow slows down with them",
        points: &[
            Point { name: "none", line: "size --burden none --jobs 1000000" },
            Point { name: "10,000 queues", line: "size --burden queues --amount 10000 --jobs 1000000" },
            Point { name: "200 idle workers", line: "size --burden workers --amount 200 --jobs 1000000" },
            Point {
                name: "10,000,000 waiting",
                line: "size --burden waiting --amount 10000000 --jobs 1000000",
            },
            Point {
                name: "1,000,000 scheduled",
                line: "size --burden scheduled --amount 1000000 --jobs 1000000",
            },
            Point {
                name: "1,000,000 retryable",
                line: "size --burden retryable --amount 1000000 --jobs 1000000",
            },
            Point { name: "1,000,000 paused", line: "size --burden paused --amount 1000000 --jobs 1000000" },
            Point { name: "a long job", line: "size --burden long --jobs 1000000" },
            Point { name: "5,000 of 1 MiB", line: "size --burden bytes --amount 5000 --jobs 1000000" },
        ],
    },
    Scenario {
        name: "payload",
        about: "jobs that carry 100 bytes to 100 kB",
        seed: "none published",
        points: &[
            Point { name: "100 B", line: "drain --payload 100 --jobs 1000000" },
            Point { name: "1 kB", line: "drain --payload 1000 --jobs 300000" },
            Point { name: "10 kB", line: "drain --payload 10000 --jobs 50000" },
            Point { name: "100 kB", line: "drain --payload 100000 --jobs 5000" },
        ],
    },
];

/// The scenarios of these names, in their order; `all` stands for every one.
pub(crate) fn find_scenarios(names: &[String]) -> Outcome<Vec<&'static Scenario>> {
    let mut found: Vec<&'static Scenario> = Vec::new();
    for name in names {
        let mut known = SCENARIOS.iter().filter(|scenario| name == "all" || scenario.name == name).peekable();
        if known.peek().is_none() {
            let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            let message = format!("unknown scenario {name:?}; use all, or some of: {}", names.join(", "));
            return Err(Failure::usage("unknown_scenario", message));
        }
        for scenario in known {
            if !found.iter().any(|other| other.name == scenario.name) {
                found.push(scenario);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_labels_tell_them_apart() {
        let names: HashSet<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), SCENARIOS.len());
        assert!(!names.contains("all"));
        for scenario in SCENARIOS {
            let labels: HashSet<_> = scenario.points.iter().map(|point| point.name).collect();
            assert_eq!(labels.len(), scenario.points.len(), "{}: {labels:?}", scenario.name);
            assert!(!scenario.about.is_empty() && !scenario.seed.is_empty());
        }
    }

    #[test]
    fn all_and_doubles_are_no_trouble() {
        let find =
            |names: &[&str]| find_scenarios(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(find(&["all", "drain"]).unwrap().len(), SCENARIOS.len());
        assert_eq!(find(&["drain", "startup"]).unwrap()[1].name, "startup");
        assert!(find(&["drane"]).is_err());
    }
}
