use serde::{Deserialize, Serialize};
use windlass_core::{Error, EventType};

/// What the store told of a job, by its name in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Told(pub EventType);

impl TryFrom<String> for Told {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse().map(Self)
    }
}

impl From<Told> for String {
    fn from(told: Told) -> Self {
        told.0.as_str().to_owned()
    }
}
