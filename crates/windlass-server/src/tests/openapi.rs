use super::site::Site;
use crate::routes::routes;
use serde_json::{Value, json};
use std::collections::HashSet;

#[tokio::test]
async fn the_description_is_whole() {
    let site = Site::in_memory();
    let document = site.send("GET", "/openapi.json", &[], Value::Null).await.is(200);
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = HashSet::new();
    for route in routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        assert!(
            names.insert(operation["operationId"].as_str().unwrap().to_owned()),
            "{} is named twice",
            route.name
        );
        assert!(
            !route.about.is_empty()
                && operation["responses"].as_object().unwrap().len()
                    == 2 + usize::from(route.takes.is_some()),
            "{}",
            route.name
        );
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(
                parameter["schema"].is_object() && parameter["name"].is_string(),
                "{}: {parameter}",
                route.name
            );
            if parameter["in"] == "query" {
                assert!(parameter["description"].is_string(), "{}: {parameter}", route.name);
            }
        }
        assert_eq!(operation["requestBody"].is_object(), route.takes.is_some());
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (mut used, text) = (HashSet::new(), document.to_string());
    for part in text.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name} is no schema");
        used.insert(name.to_owned());
    }
    for (name, schema) in schemas {
        assert!(used.contains(name), "nothing uses {name}");
        let whole =
            json!({ "$ref": format!("#/components/schemas/{name}"), "components": document["components"] });
        jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
