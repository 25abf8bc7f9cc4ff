//! The scenarios: what is done to a store, and what must hold.

mod storm;

use crate::{
    bug::Bug,
    checker::Report,
    node::{Postgres, PostgresOptions},
    run::{Run, Setup},
};
use anyhow::Result;
use std::path::PathBuf;

/// Where a scenario's jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// A PostgreSQL cluster of the run's own.
    Postgres,
    /// A SQLite file.
    Sqlite,
}

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Where the choices come from.
    pub seed: u64,
    /// The full length; otherwise a short slice.
    pub full: bool,
    /// The store.
    pub store: Store,
    /// The bug on trial.
    pub bug: Option<Bug>,
    /// Where its histories go.
    pub folder: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub enum Ended {
    /// It ran; measurements besides the checker's, in words.
    Ran(Box<Report>, Vec<String>),
    /// It cannot run here, and why.
    Skipped(String),
}

/// Something that is done to a store.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The stores that it is for.
    pub stores: &'static [Store],
    /// Whether it measures throughput or memory, so that nothing else may run beside it.
    pub alone: bool,
    /// Does it.
    pub run: fn(&Trial) -> Result<Ended>,
}

const BOTH: &[Store] = &[Store::Postgres, Store::Sqlite];
const POSTGRES: &[Store] = &[Store::Postgres];

/// Every scenario, in the order that they run.
pub const ALL: &[Scenario] = &[Scenario {
    name: "storm",
    about: "kills, pauses, shutdowns, cut connections and a crash, all at once",
    stores: BOTH,
    alone: false,
    run: storm::run,
}];

/// The scenario of this name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// The store of one trial, and what has to live as long.
pub struct Ground {
    /// The server, if there is one.
    pub server: Option<Postgres>,
    /// The store's URL.
    pub url: String,
}

impl Trial {
    /// A fresh store of the wanted sort.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub fn ground(&self) -> Result<Ground> {
        match self.store {
            Store::Postgres => {
                let server = Postgres::start(PostgresOptions::default())?;
                Ok(Ground { url: server.url(), server: Some(server) })
            }
            Store::Sqlite => {
                std::fs::create_dir_all(&self.folder)?;
                let file = self.folder.join("jobs.sqlite");
                Ok(Ground { url: format!("sqlite:{}", file.display()), server: None })
            }
        }
    }

    /// A run on a store, whose actors reach it by another URL.
    ///
    /// # Errors
    /// When the store cannot be migrated.
    pub fn open(&self, name: &str, store: &str, actors_store: &str) -> Result<Run> {
        Run::open(Setup {
            name: name.to_owned(),
            seed: self.seed,
            folder: self.folder.clone(),
            store: store.to_owned(),
            actors_store: actors_store.to_owned(),
            bug: self.bug,
        })
    }

    /// The full figure or the short one.
    pub fn scaled<T>(&self, full: T, short: T) -> T {
        if self.full { full } else { short }
    }
}
