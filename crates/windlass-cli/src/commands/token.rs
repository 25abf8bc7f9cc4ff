use crate::{failure::Outcome, globals::Globals};
use serde_json::json;
use windlass_server::{AuthFile, NewToken, Role};

/// Whom to make a token for.
#[derive(clap::Args)]
pub(crate) struct Token {
    /// Whose it is, as the audit log says
    name: String,
    /// What it allows: worker, viewer, operator or admin
    #[arg(long, default_value = "viewer", value_parser = role)]
    role: Role,
}

impl Token {
    pub(crate) fn run(&self, globals: &Globals) -> Outcome {
        let NewToken { text, sha256 } = NewToken::generate()?;
        let (name, role) = (&self.name, self.role.as_str());
        // A JSON string is one of TOML, too.
        let quoted = json!(name);
        let lines = format!("[[token]]\nname = {quoted}\nrole = \"{role}\"\nsha256 = \"{sha256}\"\n");
        AuthFile::parse(&lines)?; // no server takes every name
        globals.print(&json!({ "name": name, "role": role, "token": text, "sha256": sha256 }), || {
            format!(
                "the token, which is not shown again:\n\n{text}\n\nfor the file of `windlass serve --auth`:\n\n{lines}"
            )
        })
    }
}

fn role(name: &str) -> Result<Role, String> {
    name.parse().map_err(|error: windlass::Error| error.to_string())
}
