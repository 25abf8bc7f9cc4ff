//! Holds requests and answers against the description of the API.

use crate::{openapi::document, routes::routes};
use axum::http::Method;
use jsonschema::Validator;
use serde_json::{Value, json};

/// The description, read strictly: what it does not name must not be there.
pub(super) struct Fits(Value);

impl Fits {
    pub(super) fn new() -> Self {
        let mut document = document(&routes(), "windlass_session");
        strict(&mut document);
        Self(document)
    }

    /// The operation that a path is of.
    fn operation(&self, method: &Method, path: &str) -> Option<&Value> {
        let path = path.split('?').next()?;
        let parts: Vec<&str> = path.split('/').collect();
        let is_of = |template: &str| {
            let named: Vec<&str> = template.split('/').collect();
            let alike = |(name, part): (&&str, &&str)| name.starts_with('{') || name == part;
            named.len() == parts.len() && named.iter().zip(&parts).all(alike)
        };
        let paths = self.0["paths"].as_object()?;
        let methods = paths.iter().find(|(template, _)| is_of(template))?.1;
        methods.get(method.as_str().to_lowercase())
    }

    fn validator(&self, schema: &Value) -> Validator {
        let whole = json!({ "$ref": schema["$ref"], "components": self.0["components"] });
        jsonschema::options().should_validate_formats(true).build(&whole).unwrap()
    }

    /// The answer is one that is described.
    pub(super) fn answer(&self, method: &Method, path: &str, status: u16, body: &Value) {
        let Some(operation) = self.operation(method, path) else {
            assert!(status >= 400, "{method} {path} is not described");
            return;
        };
        let described = &operation["responses"][status.to_string()];
        let media = match described {
            Value::Null => {
                assert!(status >= 400, "{method} {path}: {status} is not described");
                &operation["responses"]["default"]["content"]["application/problem+json"]
            }
            refusal if status >= 400 => &refusal["content"]["application/problem+json"],
            described => &described["content"]["application/json"],
        };
        if media.is_null() {
            assert!(body.is_null(), "{method} {path}: there is a body, {body}");
            return;
        }
        self.hold(&media["schema"], body, &format!("{method} {path} {status}"));
    }

    /// A request that was taken is one that is described.
    pub(super) fn request(&self, method: &Method, path: &str, body: &Value) {
        let operation = self.operation(method, path).unwrap();
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{method} {path} takes no body");
        self.hold(schema, body, &format!("{method} {path}"));
    }

    pub(super) fn hold(&self, schema: &Value, body: &Value, what: &str) {
        let validator = self.validator(schema);
        let errors: Vec<_> =
            validator.iter_errors(body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{what}: {body} does not fit: {errors:#?}");
    }
}

fn strict(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(strict),
        Value::Object(fields) => {
            if fields.get("type").is_some() && fields.contains_key("properties") {
                fields.entry("additionalProperties").or_insert(false.into());
            }
            fields.values_mut().for_each(strict);
        }
        _ => {}
    }
}
