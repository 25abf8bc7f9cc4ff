//! What a database role may do with Windlass, and the statements that give it: the files of `sql/grants/`.

use crate::sql::render;
use std::{fmt, str::FromStr};
use windlass_core::{Error, ErrorKind, Result};

const ENQUEUE: &str = include_str!("../sql/grants/1_enqueue.sql");
const APPEND: &str = include_str!("../sql/grants/2_append.sql");
const WORK: &str = include_str!("../sql/grants/3_work.sql");
const READ: &str = include_str!("../sql/grants/4_read.sql");
const OPERATE: &str = include_str!("../sql/grants/5_operate.sql");

/// The longest name of a role, in bytes: PostgreSQL cuts what is longer.
const LONGEST_NAME: usize = 63;

/// What a database role that does not own the schema may do with Windlass. A role may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Enqueue by the SQL functions, which check every job. The client libraries need [`Self::Producer`].
    SqlProducer,
    /// Enqueue, by the client libraries too.
    Producer,
    /// Read jobs with their args, queues, workers and settings.
    Viewer,
    /// What a viewer may, and cancel, retry, pause, resume and change settings.
    Operator,
    /// Work jobs and keep house, and enqueue.
    Worker,
}

impl Access {
    /// All there are, the least first.
    pub const ALL: [Self; 5] =
        [Self::SqlProducer, Self::Producer, Self::Viewer, Self::Operator, Self::Worker];

    /// Its name, as the CLI and messages write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SqlProducer => "sql-producer",
            Self::Producer => "producer",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Worker => "worker",
        }
    }

    /// The statements that give it; the role is quoted already.
    pub(crate) fn statements(self, schema: &str, role: &str) -> String {
        let text = format!("-- Access: {self}. Later migrations grant what is new.\n{}", self.text());
        render(&text, schema).replace("{role}", role)
    }

    /// The same as one statement, in turn with migrations and others who grant: PostgreSQL refuses the second who changes the rights of one function.
    /// No name of a role is as long as its mark.
    pub(crate) fn script(self, schema: &str, role: &str) -> String {
        let mark = format!("${}$", "windlass".repeat(8));
        let turn = render("PERFORM pg_advisory_xact_lock(hashtext({name} || '.migrate'), 0)", schema);
        format!("DO {mark} BEGIN\n{turn};\n{}END {mark};\n", self.statements(schema, role))
    }

    /// The statements that take it away.
    pub(crate) fn revocation(self, schema: &str, role: &str) -> String {
        let text = self.text().replace("GRANT ", "REVOKE ").replace(" TO {role};", " FROM {role};");
        render(&text, schema).replace("{role}", role)
    }

    /// The function whose callers are those who were granted it: see `sql/functions/98_granted.sql`.
    pub(crate) fn marker(self) -> String {
        format!("granted_{}", self.as_str().replace('-', "_"))
    }

    /// The files that say what it takes.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::SqlProducer => &[ENQUEUE],
            Self::Producer => &[ENQUEUE, APPEND],
            Self::Viewer => &[READ],
            Self::Operator => &[READ, OPERATE],
            Self::Worker => &[ENQUEUE, APPEND, WORK],
        }
    }

    fn text(self) -> String {
        let marker = self.marker();
        // First, because a schema that lacks it is older than this program.
        format!("GRANT EXECUTE ON FUNCTION {{schema}}.{marker} TO {{role}};\n{}", self.files().concat())
    }

    /// The least that includes the right which a message of PostgreSQL names as missing, by the table or function that is its
    /// last word; several, where that serves more than one purpose.
    pub(crate) fn for_refusal(message: &str) -> Vec<Self> {
        // The last file of each is what none before it has.
        let own = |access: &Self| access.files().last().is_some_and(|file| gives(file, message));
        Self::ALL.into_iter().filter(own).collect()
    }

    /// Those that include one of these and so the right as well.
    pub(crate) fn beyond(least: &[Self], message: &str) -> Vec<Self> {
        let includes =
            |access: &Self| !least.contains(access) && access.files().iter().any(|file| gives(file, message));
        Self::ALL.into_iter().filter(includes).collect()
    }

    /// Whether this gives all of a table to read that such a message names, and not some of its columns or to write them.
    pub(crate) fn reads_all_of(self, message: &str) -> bool {
        let refused = names_in(message).last().unwrap_or_default();
        !message.contains("function")
            && self.files().iter().flat_map(|file| file.split(';')).any(|statement| {
                statement.contains("GRANT SELECT ON TABLE")
                    && statement.split("{schema}.").skip(1).any(|rest| names_in(rest).next() == Some(refused))
            })
    }
}

/// Whether one of these statements gives the right which a message of PostgreSQL names as missing.
fn gives(file: &str, message: &str) -> bool {
    let refused = names_in(message).last().unwrap_or_default();
    file.split(';').any(|statement| {
        statement.contains("ON FUNCTION") == message.contains("function")
            && statement.split("{schema}.").skip(1).any(|rest| names_in(rest).next() == Some(refused))
    })
}

/// The names and words in a text.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Access {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|access| access.as_str() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::InvalidOption, format!("unknown access {name:?}; use one of {known}"))
        })
    }
}

/// The name of a role as an identifier.
pub(crate) fn quoted(role: &str) -> Result<String> {
    let why = match role {
        "" => "it is empty",
        "public" | "none" => {
            "PostgreSQL means everybody or nobody by it; make a role for those who should have the right"
        }
        _ if role.len() > LONGEST_NAME => "it has more than 63 bytes",
        _ if role.contains(char::is_control) => "it has control characters",
        _ => return Ok(format!("\"{}\"", role.replace('"', "\"\""))),
    };
    Err(Error::new(ErrorKind::InvalidName, format!("invalid name of a role {role:?}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_what_is_taken() {
        for access in Access::ALL {
            let (given, taken) = (access.statements("s", "\"r\""), access.revocation("s", "\"r\""));
            let bare = |text: &str| text.lines().filter(|line| !line.starts_with("--")).collect::<String>();
            for statement in bare(&given).split_terminator(';') {
                assert!(statement.starts_with("GRANT ") && statement.ends_with(" TO \"r\""), "{statement}");
            }
            for statement in bare(&taken).split_terminator(';') {
                assert!(
                    statement.starts_with("REVOKE ") && statement.ends_with(" FROM \"r\""),
                    "{statement}"
                );
            }
            assert!(given.contains(&format!("\"s\".{} TO", access.marker())), "{given}");
            assert!(!given.contains('{') && !taken.contains('{'), "{given}{taken}");
        }
    }

    #[test]
    fn a_refusal_names_the_least_access() {
        for (message, least) in [
            ("permission denied for function enqueue", &[Access::SqlProducer][..]),
            ("permission denied for table job_2", &[Access::Producer]),
            ("permission denied for function claim", &[Access::Worker]),
            ("permission denied for table claim", &[Access::Viewer]),
            ("permission denied for function job_record", &[Access::Viewer]),
            ("permission denied for view queues", &[Access::Viewer]),
            ("permission denied for table setting", &[Access::Viewer, Access::Worker]),
            ("permission denied for table worker", &[Access::Viewer, Access::Worker]),
            ("permission denied for function configure", &[Access::Operator]),
            ("permission denied for table invoice", &[]),
            ("permission denied for schema windlass", &[]),
            ("", &[]),
        ] {
            assert_eq!(Access::for_refusal(message), least, "{message}");
        }
    }

    #[test]
    fn a_refusal_names_those_that_include_it_too() {
        use Access::{Operator, Producer, SqlProducer, Viewer, Worker};
        for (message, beyond) in [
            ("permission denied for function enqueue", &[Producer, Worker][..]),
            ("permission denied for table job_2", &[Worker]),
            ("permission denied for view queues", &[Operator]),
            ("permission denied for table setting", &[Operator]),
            ("permission denied for function claim", &[]),
            ("permission denied for function cancel", &[]),
        ] {
            let least = Access::for_refusal(message);
            assert_eq!(Access::beyond(&least, message), beyond, "{message}");
            assert!(
                !least.is_empty() && !least.contains(&SqlProducer) || message.ends_with("enqueue"),
                "{message}"
            );
            assert!(!beyond.contains(&Viewer), "{message}");
        }
    }

    /// Each access that is named has the function or something of the table, and is said to read all of a table where it does.
    #[test]
    fn what_a_refusal_names_gives_the_right() {
        let statements = |access: Access| access.files().concat();
        let names = |text: &str, of: &str| -> Vec<String> {
            let text: String = text.lines().filter(|line| !line.starts_with("--")).collect();
            let named = text.split(';').filter(|statement| statement.starts_with(of)).flat_map(|statement| {
                statement.split("{schema}.").skip(1).filter_map(|rest| names_in(rest).next())
            });
            named.map(str::to_owned).collect()
        };
        for (of, what) in [("GRANT SELECT ON TABLE", "table"), ("GRANT EXECUTE ON FUNCTION", "function")] {
            let all: Vec<_> = Access::ALL.iter().flat_map(|access| names(&statements(*access), of)).collect();
            assert!(all.len() > 20, "{all:?}");
            for name in all {
                let message = format!("permission denied for {what} {name}");
                let told = Access::for_refusal(&message);
                assert!(!told.is_empty(), "{message}");
                for access in told {
                    let has = names(&statements(access), of).contains(&name);
                    assert!(has || what == "table", "{message}: {access}");
                    assert_eq!(what == "table" && has, access.reads_all_of(&message), "{message}: {access}");
                }
            }
        }
    }

    #[test]
    fn names_of_roles_are_quoted_or_refused() {
        assert_eq!(quoted("Web \"1\"; --").unwrap(), "\"Web \"\"1\"\"; --\"");
        for name in ["", "public", "none", "a\nb", "a\0", &"a".repeat(64)] {
            assert_eq!(quoted(name).unwrap_err().kind(), ErrorKind::InvalidName, "{name:?}");
        }
    }
}
