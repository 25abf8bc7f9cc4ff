//! YAML as JSON, for the tests of files that others read.

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

/// The documents of a text.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    YamlLoader::load_from_str(text).expect("YAML").into_iter().map(json).collect()
}

fn json(yaml: Yaml) -> Value {
    match yaml {
        Yaml::Real(text) => text.parse::<f64>().map_or(Value::String(text), Value::from),
        Yaml::Integer(number) => number.into(),
        Yaml::String(text) => text.into(),
        Yaml::Boolean(flag) => flag.into(),
        Yaml::Array(items) => items.into_iter().map(json).collect(),
        Yaml::Hash(fields) => {
            let field = |(key, value): (Yaml, Yaml)| (key.into_string().expect("a name"), json(value));
            Value::Object(fields.into_iter().map(field).collect())
        }
        Yaml::Null => Value::Null,
        Yaml::Alias(_) | Yaml::BadValue => panic!("not understood"),
    }
}
