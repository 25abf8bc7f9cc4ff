//! What is PostgreSQL's own: one binary, because each takes seconds to build.
#[path = "../cluster/mod.rs"]
mod cluster;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../windlass/tests/own_cluster/mod.rs"]
mod own_cluster;
#[path = "../session/mod.rs"]
mod session;
#[path = "../strand/mod.rs"]
mod strand;

mod acting;
mod append_only;
mod audit;
mod bad_input;
mod claim;
mod clock;
mod clock_claims;
mod deadlines;
mod dump;
mod edits;
mod events;
mod failover;
mod given_up;
mod grants;
mod grants_kept;
mod group_commit;
mod group_commit_unique;
mod history;
mod id_blocks;
mod key_begin;
mod key_edits;
mod key_ends;
mod key_lookahead;
mod keys;
mod lane_locks;
mod lanes;
mod limits;
mod limits_of_time;
mod many_keyed_queues;
mod migrate;
mod odd_schemas;
mod once;
mod one_statement;
mod open_claims;
mod open_transactions;
mod part_done;
mod pooler;
mod promotion;
mod queue_counts;
mod reports;
mod requests;
mod retention;
mod schedules;
mod sql_calls;
mod stepped_over;
mod timings;
mod tls;
mod together;
mod touch_jobs;
mod transactions;
mod transplant;
mod truncation;
mod unique;
mod unique_many;
mod visibility;
mod wakeup;
