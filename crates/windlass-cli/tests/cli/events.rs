//! `windlass events`.

use crate::program::Home;

#[test]
fn each_event_is_a_line_with_its_cursor() {
    let home = Home::new();
    home.enqueue(&["mail.send", "--queue", "mail"]);
    home.enqueue(&["noop"]);
    let lines = |args: &[&str]| -> Vec<serde_json::Value> {
        let args: Vec<&str> = ["events", "--json"].iter().chain(args).copied().collect();
        let text = home.run(&args).done().stdout;
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    };
    let all = lines(&[]);
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["event"], &all[0]["queue"]), (&"enqueued".into(), &"mail".into()));
    assert_eq!(lines(&["--queue", "mail"]).len(), 1);
    assert_eq!(lines(&["--event", "completed"]).len(), 0);
    assert_eq!(lines(&["--from", "now"]).len(), 0);
    let cursor = all[0]["cursor"].as_str().expect("a cursor");
    assert_eq!(lines(&["--from", cursor]), all[1..]);
}
