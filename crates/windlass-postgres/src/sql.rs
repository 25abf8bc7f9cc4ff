//! The SQL files, rendered for one schema.

/// One step of the schema. Once released it never changes.
pub(crate) struct Migration {
    /// What it runs, in order.
    pub(crate) files: &'static [&'static str],
    /// The oldest binary that may work on the schema after it, by the newest version that the binary knows.
    pub(crate) compatible_with: i32,
}

/// The step to each version, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        files: &[
            include_str!("../sql/v1/01_tables.sql"),
            include_str!("../sql/v1/02_snapshot.sql"),
            include_str!("../sql/v1/03_enqueue.sql"),
            include_str!("../sql/v1/04_claim.sql"),
            include_str!("../sql/v1/05_settle.sql"),
            include_str!("../sql/v1/06_worker.sql"),
            include_str!("../sql/v1/07_control.sql"),
            include_str!("../sql/v1/08_maintain.sql"),
            include_str!("../sql/v1/09_views.sql"),
        ],
        compatible_with: 1,
    },
    Migration {
        files: &[include_str!("../sql/v2/01_enqueue_key.sql"), include_str!("../sql/v2/02_complete_in.sql")],
        compatible_with: 1,
    },
    Migration { files: &[include_str!("../sql/v3/01_id_blocks.sql")], compatible_with: 1 },
];

/// The newest schema version that this binary knows.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// The version that brought idempotency keys.
pub(crate) const ENQUEUE_KEYS: u32 = 2;

/// Where the transaction ids of direct claims begin: 2^62, beyond every real one, within a signed 64 bits.
const DIRECT: i64 = 1 << 62;

/// Fills in `{direct}`, `{idle}` (the name that the idle flag's key is hashed from), and the schema: `{schema}` as an identifier, `{name}` as a string literal. The name was checked
/// to be plain, so quoting cannot be broken out of.
pub(crate) fn render(text: &str, schema: &str) -> String {
    text.replace("{direct}", &DIRECT.to_string())
        .replace("{schema}", &format!("\"{schema}\""))
        .replace("{idle}", &format!("'{schema}.idle'"))
        .replace("{name}", &format!("'{schema}'"))
}
