//! The files in deploy/ fit the program: flags, probes, ports, and how long it takes to stop.

use crate::{program::Home, serve::Served, work_metrics::Watched, yaml};
use serde_json::Value;
use std::{fs, time::Duration};

/// How long the server takes to stop at most (10 s for running requests, 5 s to give back what HTTP workers have), and how long programs have after the
/// grace period of their worker.
const SERVER: u64 = 15;
const PROGRAMS: u64 = 5;

fn file(name: &str) -> String {
    fs::read_to_string(format!("../../deploy/{name}")).unwrap()
}

/// Every option is one that the subcommand's --help lists, and everything else is a value of one.
fn check_options(args: &[String]) {
    let help = Home::bare().run(&[&args[0], "--help"]).done().stdout;
    let options: Vec<_> = args.iter().filter(|arg| arg.starts_with("--")).collect();
    for option in &options {
        assert!(help.contains(&format!("{option} ")), "{} has no {option}", args[0]);
    }
    assert_eq!(args.len(), 1 + 2 * options.len(), "{args:?}");
}

/// What follows an option.
fn value<'a>(args: &'a [String], option: &str) -> &'a str {
    let at = args.iter().position(|arg| arg == option).unwrap_or_else(|| panic!("no {option} in {args:?}"));
    &args[at + 1]
}

fn seconds(text: &str) -> u64 {
    text.strip_suffix('s').unwrap().parse::<u64>().map(Duration::from_secs).unwrap().as_secs()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn answers(path: &str) {
    let home = Home::new();
    assert!(Served::start(&home, &[]).get(path).starts_with("HTTP/1.1 200"), "{path}");
}

#[test]
fn the_image_serves_as_nobody_in_particular() {
    let text = file("Containerfile");
    let line = |word: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(word));
        lines.next_back().unwrap_or_else(|| panic!("no {word}")).trim().to_owned()
    };
    let list = |text: &str| texts(&serde_json::from_str(text).unwrap());
    assert_eq!(list(&line("ENTRYPOINT")), ["windlass"]);
    let serve = list(&line("CMD"));
    check_options(&serve);
    assert!(line("USER").split(':').all(|id| id.parse::<u32>().unwrap() > 0));
    let health = line("HEALTHCHECK");
    let (_, url) = health.rsplit_once("http://127.0.0.1:").unwrap();
    let (port, path) = url.trim_end_matches("\"]").split_once('/').unwrap();
    assert_eq!(
        (value(&serve, "--listen"), line("EXPOSE").as_str()),
        (format!("0.0.0.0:{port}").as_str(), port)
    );
    answers(&format!("/{path}"));
    let manifest = fs::read_to_string("../../Cargo.toml").unwrap();
    assert!(text.contains("--profile dist --package windlass-cli") && manifest.contains("[profile.dist]"));
    assert!(text.contains("COPY --from=build /src/target/dist/windlass /usr/local/bin/windlass"));
}

/// The settings of a unit of systemd, and the arguments of its command.
fn unit(name: &str) -> (impl Fn(&str) -> String, Vec<String>) {
    let text = file(&format!("systemd/{name}"));
    let setting = move |name: &str| {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let mut start: Vec<_> = setting("ExecStart").split(' ').map(str::to_owned).collect();
    assert_eq!(start.remove(0), "/usr/local/bin/windlass");
    check_options(&start);
    // Exit code 2 is wrong usage, here and in the help.
    assert_eq!(setting("RestartPreventExitStatus"), "2");
    for (name, expected) in [
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateDevices", "yes"),
    ] {
        assert_eq!(setting(name), expected, "{name}");
    }
    (setting, start)
}

#[test]
fn the_unit_of_the_server_fits_the_program() {
    let (setting, _) = unit("windlass.service");
    assert!(setting("TimeoutStopSec").parse::<u64>().unwrap() > SERVER);
    assert_eq!(setting("User"), "windlass");
    assert_eq!(setting("MemoryDenyWriteExecute"), "yes");
}

#[test]
fn the_unit_of_a_worker_fits_the_program() {
    let (setting, start) = unit("windlass-worker.service");
    let stop = setting("TimeoutStopSec").parse::<u64>().unwrap();
    assert!(stop > seconds(value(&start, "--grace-period")) + PROGRAMS);
    // Otherwise systemd ends the programs of jobs together with the worker, which gives them time.
    assert_eq!(setting("KillMode"), "mixed");
    // A drained worker ends with success.
    assert_eq!(setting("Restart"), "on-failure");
    assert_eq!(setting("User"), "windlass-worker");
}

#[test]
fn the_deployments_of_kubernetes_fit_the_program() {
    let documents = yaml::documents(&file("kubernetes/windlass.yaml"));
    let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Deployment", "Service", "Deployment"]);
    for document in [&documents[0], &documents[2]] {
        let spec = &document["spec"]["template"]["spec"];
        assert_eq!(
            document["spec"]["selector"]["matchLabels"],
            document["spec"]["template"]["metadata"]["labels"]
        );
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        let container = &spec["containers"][0];
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        for variable in container["env"].as_array().unwrap() {
            let is_secret = variable["name"] == "WINDLASS_STORE";
            assert_eq!(is_secret, variable["valueFrom"]["secretKeyRef"]["name"] == "windlass", "{variable}");
            assert_eq!(is_secret, variable["value"].is_null(), "{variable}");
        }
        check_options(&texts(&container["args"]));
    }
    let stops_in = |document: &Value| {
        document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap()
    };
    let work = texts(&documents[2]["spec"]["template"]["spec"]["containers"][0]["args"]);
    assert!(stops_in(&documents[2]) > seconds(value(&work, "--grace-period")) + PROGRAMS);

    let container = &documents[2]["spec"]["template"]["spec"]["containers"][0];
    let port = &container["ports"][0];
    assert_eq!(value(&work, "--metrics"), format!("0.0.0.0:{}", port["containerPort"]));
    let home = Home::new();
    let worker = Watched::start(&home, &["--exec", "true"]);
    for probe in ["livenessProbe", "readinessProbe"].map(|probe| &container[probe]["httpGet"]) {
        assert_eq!(probe["port"], port["name"]);
        assert!(worker.get(probe["path"].as_str().unwrap()).starts_with("HTTP/1.1 200"), "{probe}");
    }

    let container = &documents[0]["spec"]["template"]["spec"]["containers"][0];
    let pause = container["lifecycle"]["preStop"]["exec"]["command"][1].as_str().unwrap();
    assert!(stops_in(&documents[0]) > pause.parse::<u64>().unwrap() + SERVER);
    let port = &container["ports"][0];
    let listen = texts(&container["args"]);
    assert_eq!(value(&listen, "--listen"), format!("0.0.0.0:{}", port["containerPort"]));
    for probe in ["livenessProbe", "readinessProbe"].map(|probe| &container[probe]["httpGet"]) {
        assert_eq!(probe["port"], port["name"]);
        answers(probe["path"].as_str().unwrap());
    }
    let service = &documents[1]["spec"];
    assert_eq!(service["selector"], documents[0]["spec"]["selector"]["matchLabels"]);
    assert_eq!(service["ports"][0]["targetPort"], port["name"]);
    // The file that --auth names is in the volume.
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let secret = &documents[0]["spec"]["template"]["spec"]["volumes"][0]["secret"];
    assert_eq!(format!("{mount}/{}", secret["items"][0]["path"].as_str().unwrap()), value(&listen, "--auth"));
}
