use crate::{
    commands::grant::{access, check_store},
    failure::Outcome,
    globals::Globals,
    open,
};
use serde_json::json;
use windlass::{Access, redact_url};

/// The options of `migrate`.
#[derive(clap::Args)]
pub(crate) struct Migrate {
    /// Prints the SQL that gives a role of PostgreSQL what it needs, for psql, and does nothing else
    #[arg(long, value_name = "ACCESS", requires = "role", value_parser = access())]
    print_grants: Option<Access>,
    /// The role that the printed SQL is for
    #[arg(long, value_name = "NAME", requires = "print_grants")]
    role: Option<String>,
}

impl Migrate {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        match (self.print_grants, self.role) {
            (Some(access), Some(role)) => print_grants(globals, access, &role),
            _ => migrate(globals).await,
        }
    }
}

fn print_grants(globals: &Globals, access: Access, role: &str) -> Outcome {
    check_store(globals)?;
    let sql = access.grant_sql(globals.url(), role)?;
    globals.print(&json!({ "access": access.as_str(), "role": role, "sql": sql }), || sql.clone())
}

/// Creates or upgrades the schema.
async fn migrate(globals: &Globals) -> Outcome {
    let client = open::create(globals.url()).await?;
    let report = client.migrate().await?;
    if report.from != report.to {
        let versions = format!("{} to {}", report.from, report.to);
        client.append_audit_or_warn(&[globals.entry("migrate", &versions)]).await;
    }
    client.close().await;
    let url = redact_url(globals.url());
    globals.print(
        &json!({ "store": url, "from": report.from, "to": report.to, "newer": report.newer }),
        || match (report.from, report.to) {
            (_, to) if report.newer => {
                format!(
                    "schema of {url} is at version {to}, of a newer program than this one, and stays as it is"
                )
            }
            (0, to) => format!("created schema version {to} in {url}"),
            (from, to) if from == to => format!("schema of {url} is at version {to} already"),
            (from, to) => format!("upgraded schema of {url} from version {from} to {to}"),
        },
    )
}
