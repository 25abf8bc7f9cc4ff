//! Makes the table of embedded files from `assets/manifest.json`, which the dashboard's build writes.

use serde_json::Value;
use std::{env, fmt::Write, fs, path::Path};

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("assets");
    println!("cargo::rerun-if-changed={}", folder.display());
    let manifest = fs::read_to_string(folder.join("manifest.json")).expect("assets/manifest.json");
    let entries: Vec<Value> = serde_json::from_str(&manifest).expect("assets/manifest.json is a JSON array");
    let mut table = String::from("&[\n");
    for entry in &entries {
        let text = |name: &str| entry[name].as_str().expect("path and type are strings");
        let (path, media) = (text("path"), text("type"));
        let [immutable, gzip] = ["immutable", "gzip"].map(|name| entry[name].as_bool().unwrap_or(false));
        let bytes = |name: &str| format!("include_bytes!({:?})", folder.join(name).display().to_string());
        let gzip = if gzip { format!("Some({})", bytes(&format!("{path}.gz"))) } else { "None".to_owned() };
        writeln!(
            table,
            "    Asset {{ path: {path:?}, media: {media:?}, immutable: {immutable}, bytes: {}, gzip: {gzip} }},",
            bytes(path)
        )
        .expect("a string takes all");
    }
    table.push(']');
    let target = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("assets.rs");
    fs::write(target, table).expect("OUT_DIR is writable");
}
