mod auth_file;

use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    interrupt::Signals,
    listen, open,
};
use auth_file::Watched;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use windlass::ConnectOptions;
use windlass_server::{Access, BasePath, Server, TraceUrl};

/// How many PostgreSQL connections all requests share, and how long one of them waits for the store.
const CONNECTIONS: usize = 4;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The 11,000 connections that it takes are an open file each, and so is what it has of the store.
const FILES: u64 = 16_384;
/// The least room for bodies: what calls take that do not enqueue.
const LEAST_BODIES: u64 = 1 << 20;

/// How to serve the dashboard and the HTTP API.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Where to listen; a port alone is for this machine. An address that others reach needs --auth; a port of 0 takes a free one
    #[arg(long, value_name = "[IP:]PORT", value_parser = listen::parse, default_value = "127.0.0.1:7411")]
    listen: SocketAddr,
    /// The path under which everything is, such as /jobs
    #[arg(long, value_name = "PATH", default_value = "", value_parser = base_path, hide_default_value = true)]
    base_path: BasePath,
    /// Who may do what, and what is hidden: a TOML file that only its owner may read. Read anew when it changes, and at SIGHUP
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Where the page of a job links to for its trace, such as https://jaeger.example.com/trace/{trace_id}
    #[arg(long, value_name = "URL", env = "WINDLASS_TRACE_URL")]
    trace_url: Option<TraceUrl>,
    /// Refuses whatever changes something
    #[arg(long)]
    read_only: bool,
    /// How many bytes of requests' bodies are in memory at once, at least a MiB; who would send more waits, and is refused (503) after ten seconds
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(LEAST_BODIES..))]
    body_memory: u64,
}

impl Serve {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let (access, auth_file) = self.access()?;
        allow_files();
        let mut signals = Signals::listen_but_hangup()?; // which reads --auth anew
        let options = ConnectOptions::default().with_pool_size(CONNECTIONS).with_call_timeout(CALL_TIMEOUT);
        let client = tokio::select! {
            client = open::existing_with(globals.url(), options) => globals.with_keys(client?)?,
            () = signals.next() => return Ok(()),
        };
        let listener = listen::on(self.listen, "--listen").await?;
        let address = listener.local_addr()?;
        let server = Server::builder(client.clone())
            .access(access)
            .port(address.port())
            .read_only(self.read_only)
            .trace_url(self.trace_url)
            .body_memory(usize::try_from(self.body_memory).unwrap_or(usize::MAX))
            .build();
        let url = format!("http://{address}{}/", self.base_path.as_str());
        let login = server.start_key()?.map(|key| format!("{url}#key={key}"));
        globals.print(&json!({ "url": url, "login": login }), || match &login {
            Some(login) => format!("{url}\nto change things, open within 10 minutes: {login}"),
            None => url.clone(),
        })?;
        let follow = auth_file.map(|file| tokio::spawn(file.follow(server.clone())));
        let served = server.serve(listener, &self.base_path, signals.next()).await;
        follow.into_iter().for_each(|follow| follow.abort());
        client.close().await;
        Ok(served?)
    }

    fn access(&self) -> Outcome<(Access, Option<Watched>)> {
        match &self.auth {
            Some(path) => {
                let (watched, file) = Watched::read(path)?;
                Ok((Access::file(file), Some(watched)))
            }
            None if self.listen.ip().is_loopback() => Ok((Access::loopback(), None)),
            None => {
                let message = format!(
                    "{} is reached from other machines, and nothing says who may do what; name a file with --auth \
                     (`windlass token NAME` prints lines for one, docs/guide/operate.md explains it), or listen on 127.0.0.1 \
                     and have a proxy or `ssh -L` reach it",
                    self.listen
                );
                Err(Failure::usage("invalid_option", message))
            }
        }
    }
}

/// Most shells and services allow a program 1,024 files until it asks for more: some hundreds of idle browsers and workers would keep everybody
/// else out, the probes of an orchestrator as well.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < FILES) {
        let most = limit.maximum.map_or(FILES, |most| most.min(FILES));
        // Where the system says no it goes on with what it has.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

fn base_path(text: &str) -> Result<BasePath, String> {
    text.parse().map_err(|error: windlass::Error| error.to_string())
}
