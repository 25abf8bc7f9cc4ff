use crate::{
    commands::{
        audit::Audit, demo::Demo, enqueue::Enqueue, events::EventsOf, failures::FailuresOf, grant::Grant,
        history::HistoryOf, jobs::Jobs, mark::MarkOf, migrate::Migrate, queues::Queues, retention::Retention,
        schedules::Schedules, serve::Serve, settings, status, timings::TimingsOf, token::Token, top::Top,
        work::Work, workers::Workers,
    },
    failure::Outcome,
    globals::Globals,
    program::Program,
    traces,
};
use clap::{Parser, Subcommand};

/// A durable background-job queue on SQLite or PostgreSQL.
///
/// Exit codes: 0 done, 1 the operation failed or is not permitted, 2 usage or input was wrong, 3 the store cannot be reached
/// or is not migrated.
#[derive(Parser)]
#[command(name = "windlass", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

// What stands here behind the first line is in the help of a command, as it is nowhere else: clap puts this in the place of what its options say of
// themselves.
#[derive(Subcommand)]
enum Command {
    /// Enqueues and works a million jobs, and reports speed and latency
    ///
    /// Runs in a temporary SQLite file, or in the store named with --store, there in a queue of its own.
    Demo(Demo),
    /// Creates or upgrades the schema of the store
    Migrate(Migrate),
    /// Gives a role of PostgreSQL what it needs, takes it away, or lists who has what
    Grant(Grant),
    /// Enqueues one job, or many from a file
    Enqueue(Enqueue),
    /// Works jobs by running a program for each
    ///
    /// With --exec, the program gets the job's args as JSON on stdin, and WINDLASS_JOB_ID, WINDLASS_KIND, WINDLASS_QUEUE,
    /// WINDLASS_ATTEMPT and WINDLASS_MAX_ATTEMPTS, and TRACEPARENT where the job is a part of a trace. Exit code 0 completes the job, 65 discards it, 75 puts it
    /// off for a minute without using up an attempt; anything else is a failure, and the end of stderr is kept
    /// as its error. Its stdout goes to stderr here; with --results it is the job's result: JSON as it is, anything else as a string. The program runs in a process group of its own: when it has to stop, all of the group
    /// gets SIGTERM and, 5 seconds later, SIGKILL.
    ///
    /// While it runs, what it writes to $WINDLASS_REPORT (descriptor 3), a line each, is said of its job: `progress 40 page 3 of 10`, `log TEXT`, and
    /// `checkpoint VALUE`, which the next attempt gets in WINDLASS_CHECKPOINT.
    ///
    /// With --stdio, the program gets job after job as a line of JSON on stdin and answers on stdout: docs/protocols/stdio.md.
    Work(Work),
    /// Lists, shows, cancels or retries jobs
    #[command(subcommand)]
    Jobs(Jobs),
    /// Prints what happens to jobs, in order and without gaps
    Events(EventsOf),
    /// Lists queues, pauses, resumes, limits or empties them
    Queues(Queues),
    /// Lists, declares, previews, pauses or removes schedules (cron)
    #[command(subcommand)]
    Schedules(Schedules),
    /// Shows or changes what the store keeps, and how many crashes a job survives
    Settings(settings::Change),
    /// Shows how many jobs ended in which way, minute by minute
    History(HistoryOf),
    /// Shows how long jobs waited and ran
    Timings(TimingsOf),
    /// Shows why attempts failed, by cause
    Failures(FailuresOf),
    /// Marks this moment, as a deploy, in the charts of the dashboard
    Mark(MarkOf),
    /// Lists or changes what is kept of single queues and outcomes
    #[command(subcommand)]
    Retention(Retention),
    /// Lists who changed what, the newest first
    Audit(Audit),
    /// Shows the store, its workers and its queues
    Status,
    /// Lists workers, or drains one
    Workers(Workers),
    /// Shows queues and workers as they change, on the terminal
    ///
    /// On a terminal: q ends, p pauses, s sorts by the next column. Elsewhere one table is printed; with --json an object for each look, until
    /// it is interrupted.
    Top(Top),
    /// Serves the dashboard and the HTTP API
    ///
    /// Without --auth only this machine is served: everybody on it looks, and who opens the address that the start prints may do
    /// everything. Stops at SIGTERM or SIGINT. Guide: docs/guide/operate.md.
    Serve(Serve),
    /// Makes a token for the HTTP API
    ///
    /// It is printed once; the file of `windlass serve --auth` gets the lines with its hash.
    Token(Token),
}

impl Program for Cli {
    fn globals(&self) -> &Globals {
        &self.globals
    }

    async fn run(self) -> Outcome {
        let globals = &self.globals;
        match self.command {
            Command::Demo(demo) => demo.run(globals).await,
            Command::Migrate(migrate) => migrate.run(globals).await,
            Command::Grant(grant) => grant.run(globals).await,
            Command::Enqueue(enqueue) => Box::pin(traces::exported(enqueue.run(globals))).await,
            Command::Work(work) => Box::pin(traces::exported(work.run(globals))).await,
            Command::Jobs(jobs) => jobs.run(globals).await,
            Command::Events(events) => events.run(globals).await,
            Command::Queues(queues) => queues.run(globals).await,
            Command::Schedules(schedules) => schedules.run(globals).await,
            Command::Settings(change) => change.run(globals).await,
            Command::History(history) => history.run(globals).await,
            Command::Timings(timings) => timings.run(globals).await,
            Command::Failures(failures) => failures.run(globals).await,
            Command::Mark(mark) => mark.run(globals).await,
            Command::Retention(retention) => retention.run(globals).await,
            Command::Audit(audit) => audit.run(globals).await,
            Command::Workers(workers) => workers.run(globals).await,
            Command::Status => status::run(globals).await,
            Command::Top(top) => top.run(globals).await,
            Command::Serve(serve) => serve.run(globals).await,
            Command::Token(token) => token.run(globals),
        }
    }
}
