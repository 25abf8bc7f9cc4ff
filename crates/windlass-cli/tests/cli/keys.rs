use crate::program::Home;
use std::{fs, os::unix::fs::PermissionsExt};

const KEYS: &str = "# rotated in 2027\nk2:h8TPLyzJ6vyEJZwWVDkAQ8N7ZpeJ65cZ2PLlgNHTfnI=\nk1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n";

fn home(mode: u32) -> Home {
    let home = Home::new();
    let file = home.path().join("keys");
    fs::write(&file, KEYS).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    home
}

#[test]
fn args_are_encrypted_worked_and_revealed_with_the_keys_of_a_file() {
    let home = home(0o600);
    let args = r#"{"passport": "C01X00T47"}"#;
    let enqueue = ["enqueue", "account.open", "--args", args, "--encrypt"];
    home.run(&enqueue).refused(2, &["--keys-file", "WINDLASS_KEYS"]);
    let id = home.run(&[&enqueue[..], &["--keys-file", "keys"]].concat()).done().stdout.trim().to_owned();
    let show = ["jobs", "show", id.as_str()];
    for plain in [
        home.run(&show),
        home.run(&["jobs", "show", &id, "--keys-file", "keys"]),
        home.run(&["jobs", "list"]),
    ] {
        let shown = plain.done().stdout;
        assert!(shown.contains("[encrypted, key k2]") && !shown.contains("C01X00T47"), "{shown}");
    }
    home.run(&["jobs", "show", &id, "--reveal"]).refused(1, &["k2"]);
    let shown = home.run(&["jobs", "show", &id, "--reveal", "--keys-file", "keys"]).done().stdout;
    assert!(shown.contains("C01X00T47"), "{shown}");
    let audited = home.run(&["audit"]).done().stdout;
    assert_eq!(audited.matches("jobs.reveal").count(), 1, "{audited}");
    // A program gets them open.
    let work = ["work", "--exec", "cat > seen", "--until-empty", "--keys-file", "keys"];
    home.run(&work).done();
    assert!(fs::read_to_string(home.path().join("seen")).unwrap().contains("C01X00T47"));
    assert_eq!(home.state(&id), "completed");
}

#[test]
fn keys_are_refused_that_others_can_read_or_that_are_none() {
    let shared = home(0o644);
    let file = shared.path().join("keys");
    let run = |home: &Home| home.run(&["enqueue", "a", "--encrypt", "--keys-file", "keys"]);
    run(&shared).refused(2, &["chmod 600"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "k1:too-short").unwrap();
    let refused = run(&shared).refused(2, &["holds no keys"]);
    assert!(!refused.stderr.contains("too-short"), "{}", refused.stderr);
    run(&Home::new()).refused(2, &["keys file keys:"]);
}
