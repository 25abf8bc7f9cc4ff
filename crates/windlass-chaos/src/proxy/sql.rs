//! As much of SQL as it takes to see what a statement is about.

/// Whether a statement writes rows, by its first word, or because a query in it says INSERT INTO.
#[must_use]
pub fn writes(sql: &str) -> bool {
    let word = first_word(sql);
    let is = |other: &&str| word.eq_ignore_ascii_case(other);
    ["INSERT", "UPDATE", "DELETE", "MERGE", "COPY"].iter().any(is)
        || (is(&"WITH") && sql.to_ascii_uppercase().contains("INSERT INTO"))
}

/// The first word of a statement, behind spaces and comments.
#[must_use]
pub fn first_word(sql: &str) -> &str {
    let rest = after_comments(sql);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

fn after_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    loop {
        let end = if rest.starts_with("--") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 1)
        } else {
            return rest;
        };
        rest = end.map_or("", |end| rest[end + 1..].trim_start());
    }
}

/// What a statement does to the transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Begin,
    Commit,
    Rollback,
    /// A transaction from begin to commit in one simple query.
    Whole,
    CopyIn,
    Other,
}

impl Role {
    pub(super) fn of(sql: &str) -> Self {
        let word = first_word(sql).to_ascii_uppercase();
        match word.as_str() {
            "BEGIN" | "START" if ends_with_commit(sql) => Self::Whole,
            "BEGIN" | "START" => Self::Begin,
            "COMMIT" | "END" => Self::Commit,
            "ROLLBACK" | "ABORT" if !to_savepoint(sql) => Self::Rollback,
            "COPY" if sql.to_ascii_uppercase().contains("FROM STDIN") => Self::CopyIn,
            _ => Self::Other,
        }
    }
}

fn to_savepoint(sql: &str) -> bool {
    sql.split_whitespace().any(|word| word.eq_ignore_ascii_case("to"))
}

fn ends_with_commit(sql: &str) -> bool {
    let text = sql.trim_end_matches(|c: char| c.is_whitespace() || c == ';');
    let last = text.rsplit(|c: char| c.is_whitespace() || c == ';').next().unwrap_or("");
    last.eq_ignore_ascii_case("commit") || last.eq_ignore_ascii_case("end")
}

#[cfg(test)]
mod tests {
    use super::{Role, first_word, writes};

    #[test]
    fn the_first_word_stands_behind_comments() {
        assert_eq!(first_word(" -- a\n/* b */ insert into x"), "insert");
        assert_eq!(first_word("-- nothing else"), "");
        assert_eq!(first_word("/* no end"), "");
        assert!(writes("/* x */INSERT INTO t VALUES (1)") && !writes("SELECT 'INSERT'"));
        assert!(
            writes("with j AS (SELECT 1), k AS (insert into t SELECT 2) SELECT 3")
                && !writes("WITH j AS (SELECT 1) SELECT 2")
        );
    }

    #[test]
    fn a_statement_has_a_role() {
        for (sql, role) in [
            ("BEGIN ISOLATION LEVEL READ COMMITTED", Role::Begin),
            ("start transaction", Role::Begin),
            ("COMMIT", Role::Commit),
            ("end;", Role::Commit),
            ("ROLLBACK", Role::Rollback),
            ("ROLLBACK TO sp_1", Role::Other),
            ("BEGIN; INSERT INTO t VALUES (1); COMMIT;", Role::Whole),
            ("COPY t FROM STDIN (FORMAT binary)", Role::CopyIn),
            ("DO $$ BEGIN COMMIT; END $$", Role::Other),
        ] {
            assert_eq!(Role::of(sql), role, "{sql}");
        }
    }
}
