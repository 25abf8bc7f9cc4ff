//! The lines that such programs write, rightly and wrongly.

use crate::{program::Home, stdio::COMPLETE_ALL};

/// As of .NET, whose writer begins a stream with it, and of languages that know no numbers but floating-point ones.
#[test]
fn a_byte_order_mark_and_whole_numbers_written_as_floats_are_no_offence() {
    let home = Home::new();
    let ids = ["complete", "snooze"].map(|kind| home.enqueue(&[kind]));
    let report = home.stdio(
        r#"
sys.stdout.reconfigure(encoding="utf-8")
def tell(text): print("\ufeff" + text, flush=True)
tell('{"type":"ready","protocol":1.0,"concurrency":2.0}')
for job in jobs():
    match job["kind"]:
        case "complete": tell('{"type":"complete","ticket":%d.0}' % job["ticket"])
        case "snooze": tell('{"type":"snooze","ticket":%de0,"after_ms":36e5}' % job["ticket"])
"#,
        &[],
    );
    assert_eq!(ids.map(|id| home.state(&id)), ["completed", "scheduled"]);
    assert_eq!(report["processes"]["died"], 0, "{report}");
}

/// It says what to write.
#[test]
fn a_ticket_that_is_no_number_is_named_in_the_error_of_the_job() {
    let home = Home::new();
    let id = home.enqueue(&["complete", "--max-attempts", "1"]);
    let program = r#"
say("ready", protocol=1)
for job in jobs(): say("complete", {"ticket": str(job["ticket"])})
"#;
    home.stdio(program, &[]);
    let error = home.error(&id);
    assert!(error.contains("the ticket is \"") && error.contains("has to be the number"), "{error}");
}

#[test]
fn what_is_printed_by_mistake_is_passed_on_and_does_no_harm() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    let program = format!(
        "print('hello')\n{}",
        COMPLETE_ALL.replace("say(\"complete\"", "print('{\"debug\": 1}\\n[1]'); say(\"complete\"")
    );
    let command = home.python("worker.py", &program);
    let answer = home.run(&["work", "--until-empty", "--stdio", &command]).done();
    assert_eq!(home.state(&id), "completed");
    for line in ["hello\n", "{\"debug\": 1}\n", "[1]\n"] {
        assert!(answer.stderr.contains(line), "{}", answer.stderr);
    }
}

#[test]
fn a_wrong_answer_fails_its_job_and_no_other() {
    let home = Home::new();
    for (answer, words) in [
        (r#"say("done", job)"#, "\"done\" is no type"),
        (r#"say("retry", job)"#, "needs the field error"),
        (r#"say("complete", job, result="\ud800")"#, "is wrong"),
        (
            r#"print('{"type":"complete","ticket":%d,"result":NaN}' % job["ticket"])"#,
            "wrote a line that is no message",
        ),
        (r#"print('{"type":"complete","ticket":"x"}')"#, "wrote a line that is no message"),
        (r#"print('{"type":"log","text":"' + "x" * 5000000)"#, "wrote a line of more than 4194304 bytes"),
        ("sys.stdout.close(); os.close(1); time.sleep(60)", "closed its stdout and went on"),
    ] {
        let (wrong, fine) = (home.enqueue(&["wrong"]), home.enqueue(&["fine"]));
        let program = format!(
            "say('ready', protocol=1)\nfor job in jobs():\n    if job['kind'] == 'wrong':\n        {answer}; sys.stdout.flush()\n    else: say('complete', job)\n"
        );
        let program = program.replace("time.sleep(60); sys.stdout.flush()", "time.sleep(60)");
        home.stdio(&program, &[]);
        assert_eq!(
            (home.state(&wrong), home.state(&fine)),
            ("retryable".into(), "completed".into()),
            "{answer}"
        );
        assert!(home.error(&wrong).contains(words), "{answer}: {}", home.error(&wrong));
    }
}

#[test]
fn a_wrong_report_is_left_out_and_a_wrong_checkpoint_is_answered() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    let program = r#"
say("ready", protocol=1)
while line := sys.stdin.readline():
    job = json.loads(line)
    say("progress", job, percent="half")
    say("progress", job, percent=400)
    say("checkpoint", job, value=None)
    say("complete", job, result=json.loads(sys.stdin.readline())["error"])
"#;
    let report = home.stdio(program, &[]);
    let job = home.show(&id);
    assert_eq!((&job["state"], &report["processes"]["died"]), (&"completed".into(), &0.into()), "{job}");
    assert!(job["result"].as_str().unwrap().contains("needs the field value"), "{job}");
}

#[test]
fn answers_for_jobs_that_it_does_not_have_are_counted_and_change_nothing() {
    let home = Home::new();
    let ids = [(); 2].map(|()| home.enqueue(&["a"]));
    let program = COMPLETE_ALL.replace(
        "say(\"complete\", job)",
        "say('discard', {'ticket': 4711}, error='made up'); say(\"complete\", job); say('discard', job, error='twice')",
    );
    let report = home.stdio(&program, &[]);
    assert!(ids.iter().all(|id| home.state(id) == "completed"));
    assert_eq!(
        (&report["processes"]["refused_answers"], &report["processes"]["died"]),
        (&4.into(), &0.into())
    );
}
