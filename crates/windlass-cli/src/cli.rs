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
/// Exit codes: 0 done, 1 the operation failed, 2 usage or input was wrong, 3 the store cannot be reached
/// or is not migrated.
#[derive(Parser)]
#[command(name = "windlass", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Enqueues and works a million jobs, and reports speed and latency
    Demo(Demo),
    /// Creates or upgrades the schema of the store
    Migrate(Migrate),
    /// Gives a role of PostgreSQL what it needs, takes it away, or lists who has what
    Grant(Grant),
    /// Enqueues one job, or many from a file
    Enqueue(Enqueue),
    /// Works jobs by running a program for each
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
    Top(Top),
    /// Serves the dashboard and the HTTP API
    Serve(Serve),
    /// Makes a token for the HTTP API
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
