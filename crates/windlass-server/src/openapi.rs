//! The description of the API (OpenAPI 3.1), made from the list of routes. The schemas are files; tests hold answers and requests against them.

use crate::{gate::Does, routes::Route};
use serde_json::{Map, Value, json};

const SCHEMAS: &str = include_str!("openapi/schemas.json");
const PARAMETERS: &str = include_str!("openapi/parameters.json");

/// The document of these routes; `cookie` is the name of that of a session.
pub(crate) fn document(routes: &[Route], cookie: &str) -> Value {
    let schemas: Value = parsed(SCHEMAS);
    let parameters: Value = parsed(PARAMETERS);
    let mut paths = Map::new();
    for route in routes {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.as_str().to_lowercase()] = operation(route, &parameters);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Ids are text; times are RFC 3339 in UTC. Unknown fields of requests are refused; readers ignore those of answers.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "." }],
        "security": [{ "bearer": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": cookie },
            },
        },
    })
}

fn parsed(text: &str) -> Value {
    // A test reads both; a defect there is none of a user.
    serde_json::from_str(text).unwrap_or_default()
}

fn operation(route: &Route, known: &Value) -> Value {
    let parameters: Vec<Value> =
        in_path(route.path).chain(route.query.iter().map(|name| in_query(name, known))).collect();
    let reference = |schema: &str| json!({ "$ref": format!("#/components/schemas/{schema}") });
    let media = if route.does == Does::Stream { "text/event-stream" } else { "application/json" };
    let (status, schema) = route.gives;
    let mut success = json!({ "description": route.about });
    match schema {
        Some(schema) => success["content"] = json!({ media: { "schema": reference(schema) } }),
        None if route.does == Does::Stream => {
            success["content"] = json!({ media: { "schema": { "type": "string" } } });
        }
        None => {}
    }
    let problem = json!({
        "description": "Refused",
        "content": { "application/problem+json": { "schema": reference("Problem") } },
    });
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.about,
        "description": route.role.map_or("For anybody.".to_owned(), |role| format!("For the role {role} and above.")),
        "parameters": parameters,
        "responses": { status.to_string(): success, "default": problem.clone() },
    });
    if let Some(schema) = route.takes {
        let mut late = problem.clone();
        late["description"] = "The body did not arrive in time; nothing was done".into();
        operation["responses"]["408"] = late;
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": reference(schema) } } });
    }
    if route.role.is_none() {
        operation["security"] = json!([]);
    }
    operation
}

fn in_path(path: &str) -> impl Iterator<Item = Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
}

fn in_query(name: &str, known: &Value) -> Value {
    let mut parameter = json!({ "name": name, "in": "query", "schema": known[name]["schema"], "description": known[name]["about"] });
    if known[name]["required"] == true {
        parameter["required"] = true.into();
    }
    parameter
}
