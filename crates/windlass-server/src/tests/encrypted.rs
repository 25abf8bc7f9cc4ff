//! Encrypted jobs at a server that has their keys, and at one that has not.

use super::site::Site;
use crate::Role::{Admin, Operator, Viewer};
use serde_json::{Value, json};
use windlass::{Keyring, testing};

#[tokio::test]
async fn encrypted_args_are_enqueued_sealed_and_shown_to_an_admin_who_asks() {
    let plain = testing::client();
    let keyed = plain.clone().with_keyring(Keyring::new("k1", [7; 32]).unwrap());
    let (with, without) = (Site::of(keyed, |builder| builder), Site::of(plain, |builder| builder));
    let jobs = json!({ "jobs": [{ "kind": "a", "args": { "passport": "C01X00T47" }, "encrypted": true }] });
    let refused = without.ask(Operator, "POST", "/jobs", jobs.clone()).await;
    assert!(refused.status == 422 && refused.text.contains("keyring"), "{}", refused.text);
    let id = with.ask(Operator, "POST", "/jobs", jobs).await.is(201)["ids"][0].as_str().unwrap().to_owned();

    let reveal = format!("/jobs/{id}/args?reveal=1");
    for path in [format!("/jobs/{id}"), "/jobs".to_owned()] {
        for role in [Viewer, Admin] {
            let shown = with.ask(role, "GET", &path, Value::Null).await;
            assert!(shown.status == 200 && !shown.text.contains("C01X00T47"), "{}", shown.text);
        }
    }
    with.ask(Operator, "GET", &reveal, Value::Null).await.refused(403, "permission_denied");
    let shown = with.ask(Admin, "GET", &reveal, Value::Null).await.is(200);
    assert_eq!(shown, json!({ "args": { "passport": "C01X00T47" } }));
    let audited = with.ask(Admin, "GET", "/audit?action=jobs.reveal", Value::Null).await.is(200);
    assert_eq!(audited["items"][0]["outcome"], "done");
    // Who has no key sees what is stored.
    let sealed = without.ask(Admin, "GET", &reveal, Value::Null).await.is(200);
    assert_eq!(sealed["args"]["windlass.enc"]["key"], "k1");
}
