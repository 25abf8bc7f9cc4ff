use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    open,
    table::table,
    text::escape,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use windlass::{Access, Client, StoreKind};

/// The options of `grant`. Without any it lists what was granted.
#[derive(clap::Args)]
pub(crate) struct Grant {
    /// What the role may do: sql-producer enqueues by the SQL functions, producer by the client libraries too, viewer reads
    /// everything, operator also cancels, retries, pauses and changes settings, worker works jobs and enqueues
    #[arg(requires = "role", value_parser = access())]
    access: Option<Access>,
    /// The role of PostgreSQL; it exists already
    role: Option<String>,
    /// Takes it away instead
    #[arg(long, requires = "role")]
    revoke: bool,
}

impl Grant {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        check_store(globals)?;
        let client = open::existing(globals.url()).await?;
        match (self.access, self.role) {
            (Some(access), Some(role)) => change(globals, &client, access, &role, self.revoke).await?,
            _ => list(globals, &client).await?,
        }
        client.close().await;
        Ok(())
    }
}

async fn change(globals: &Globals, client: &Client, access: Access, role: &str, revoke: bool) -> Outcome {
    let done = match revoke {
        false => client.grant(access, role).await.map(|()| "granted"),
        true => client.revoke(access, role).await.map(|had| if had { "revoked" } else { "unchanged" }),
    };
    let action = if revoke { "access.revoke" } else { "access.grant" };
    let done = globals.did(client, action, &format!("{access} {role}"), done).await?;
    let answer = json!({ "role": role, "access": access.as_str(), "done": done });
    globals.print(&answer, || match done {
        "granted" => format!("granted {access} to role {}", escape(role)),
        "revoked" => format!("revoked {access} from role {}", escape(role)),
        _ => format!("role {} had not been granted {access}", escape(role)),
    })
}

async fn list(globals: &Globals, client: &Client) -> Outcome {
    let granted = client.granted().await?;
    let answer: Vec<_> =
        granted.iter().map(|(role, access)| json!({ "role": role, "access": access.as_str() })).collect();
    globals.print(&answer, || {
        let rows: Vec<_> =
            granted.iter().map(|(role, access)| vec![escape(role), access.to_string()]).collect();
        if rows.is_empty() { "nothing was granted\n".to_owned() } else { table(&["ROLE", "ACCESS"], &rows) }
    })
}

/// Reads the name of an access.
pub(super) fn access() -> impl TypedValueParser<Value = Access> {
    PossibleValuesParser::new(Access::ALL.map(Access::as_str)).try_map(|name| name.parse::<Access>())
}

/// Refuses a store that knows no roles.
pub(super) fn check_store(globals: &Globals) -> Outcome {
    match StoreKind::of(globals.url())? {
        StoreKind::Postgres => Ok(()),
        _ => Err(Failure::usage(
            "unsupported",
            "roles are PostgreSQL's; who may use a SQLite store is up to the permissions of its file and folder; \
             name a PostgreSQL store with --store",
        )),
    }
}
