use super::{Store, Trial};
use crate::{
    node::{Postgres, PostgresOptions},
    proxy::Proxy,
    run::{Run, Setup},
};
use anyhow::{Context as _, Result};
use std::net::{Ipv4Addr, SocketAddr};

/// The store of one trial, and what has to live as long: its server, and a proxy before it.
pub(super) struct Ground {
    pub(super) proxy: Option<Proxy>,
    pub(super) server: Option<Postgres>,
    /// The store's URL, without the proxy.
    pub(super) url: String,
    /// Where the proxy works.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Ground {
    /// A fresh store of the wanted sort.
    pub(super) fn fresh(trial: &Trial) -> Result<Self> {
        match trial.store {
            Store::Postgres => Self::postgres(PostgresOptions::default()),
            Store::Sqlite => {
                std::fs::create_dir_all(&trial.folder)?;
                let url = format!("sqlite:{}", trial.folder.join("jobs.sqlite").display());
                Ok(Self { url, server: None, proxy: None, runtime: None })
            }
        }
    }

    /// A PostgreSQL cluster of its own.
    pub(super) fn postgres(options: PostgresOptions) -> Result<Self> {
        let server = Postgres::start(options)?;
        Ok(Self { url: server.url(), server: Some(server), proxy: None, runtime: None })
    }

    /// The same with a proxy before it, through which the actors go.
    pub(super) fn proxied(trial: &Trial) -> Result<Self> {
        let mut ground = Self::fresh(trial)?;
        if let Some(server) = &ground.server {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
            ground.proxy = Some(runtime.block_on(Proxy::start_seeded(upstream, trial.seed))?);
            ground.runtime = Some(runtime);
        }
        Ok(ground)
    }

    /// The URL by which the actors reach the store.
    pub(super) fn actors_url(&self) -> Result<String> {
        match &self.proxy {
            Some(proxy) => proxy.url_of(&self.url),
            None => Ok(self.url.clone()),
        }
    }

    pub(super) fn server(&self) -> Result<&Postgres> {
        self.server.as_ref().context("this scenario is for PostgreSQL")
    }

    pub(super) fn proxy(&self) -> Result<&Proxy> {
        self.proxy.as_ref().context("this scenario needs its proxy")
    }

    /// A run whose actors reach the store through the proxy, if there is one.
    pub(super) fn open(&self, trial: &Trial) -> Result<Run> {
        self.open_by(trial, &self.actors_url()?)
    }

    /// A run whose actors reach the store by a URL of their own.
    pub(super) fn open_by(&self, trial: &Trial, actors_store: &str) -> Result<Run> {
        Run::open(self.setup(trial, actors_store))
    }

    /// What such a run is made of.
    pub(super) fn setup(&self, trial: &Trial, actors_store: &str) -> Setup {
        Setup {
            seed: trial.seed,
            folder: trial.folder.clone(),
            store: self.url.clone(),
            actors_store: actors_store.to_owned(),
            bug: trial.bug,
            migrates: true,
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.proxy = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
