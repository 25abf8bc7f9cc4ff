//! TOML files of schedules: what is wrong is told by its line, and what is read can be declared and previewed.

use windlass::{Limits, ScheduleFile};

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "[[schedule]]\nname = \"a\"\ncron = \"@daily\"\nkind = \"k\"\n",
    "[[schedule]]\nname = \"b\"\ncron = \"every 90s\"\nkind = \"k\"\n",
    "source = \"app\"\n",
    "zone = \"Europe/Berlin\"\n",
    "zone = \"Mars\"\n",
    "starts_at = 2026-01-01T00:00:00Z\n",
    "ends_at = \"2027-01-01T00:00:00Z\"\n",
    "ends_at = 1979-05-27\n",
    "jitter = \"5m\"\n",
    "jitter = \"-5m\"\n",
    "overlap = \"skip\"\n",
    "missed = 7\n",
    "missed = 70000\n",
    "missed = \"none\"\n",
    "args = { to = [1, 1.5, nan, true], at = 2026-01-01 }\n",
    "args = [[[[[[[[[[]]]]]]]]]]\n",
    "meta = { who = \"me\" }\n",
    "tags = [\"x\", \"\\u0000\"]\n",
    "priority = 101\n",
    "max_attempts = 0\n",
    "timeout = \"30s\"\n",
    "expiry = \"999999999h\"\n",
    "crno = 1\n",
    "cron = \"* * * * *\"\n",
    "name = \"\"\n",
    "[[",
    "]]",
    "\"\"\"",
    "\u{1b}",
    "#",
    "=",
    "\n",
];

/// Reads the bytes as a file.
pub fn body(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match ScheduleFile::parse(&text) {
        Ok(file) => {
            for schedule in &file.schedules {
                assert_eq!(schedule.source(), file.source);
                windlass::preview(schedule, "2026-01-01T00:00:00Z".parse().expect("an instant"), 2)
                    .expect("was read");
            }
            if let Err(error) = Limits::default().check_schedules(&file.schedules) {
                assert!(error.is_invalid_input(), "{error}");
            }
        }
        Err(error) => {
            assert!(error.is_invalid_input(), "{error}");
            assert!(error.to_string().contains("line"), "{error}");
        }
    }
}
