//! Tests of the image and the compose file as far as possible without Docker: everything that they name exists and is valid.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use crate::files::{folder, text, yaml};
use crate::stage::Stage;

fn services() -> Map<String, Value> {
    let compose = yaml("compose.yml");
    compose["services"].as_object().unwrap().clone()
}

/// Returns the services whose command is one of ours.
fn ours() -> Vec<(String, Vec<String>)> {
    let services = services().into_iter();
    let of_our_image = services.filter(|(_, service)| {
        let image = service["image"].as_str().unwrap();
        image.starts_with("fencepost:")
    });
    let with_words = of_our_image.map(|(name, service)| {
        let words = service["command"].as_array().unwrap().iter();
        (
            name,
            words
                .map(|word| word.as_str().unwrap().to_owned())
                .collect(),
        )
    });
    let all: Vec<(String, Vec<String>)> = with_words.collect();
    assert_eq!(all.len(), 2, "the service and the lab");
    all
}

pub(crate) fn every_flag_is_one() {
    let stage = Stage::new();
    for (name, words) in ours() {
        let (code, help, _) = stage.run(&format!("{} --help", words[0]));
        assert_eq!(code, 0, "{name}");
        let known: BTreeSet<&str> = help
            .split(|c: char| !(c.is_alphanumeric() || c == '-'))
            .collect();
        for flag in words.iter().filter(|word| word.starts_with("--")) {
            assert!(known.contains(&**flag), "{name}: {flag} is not in --help");
        }
    }
    // Together the flags are accepted. The service refuses only because others could reach it without a token.
    let (_, words) = ours()
        .into_iter()
        .find(|(name, _)| name == "checkout")
        .unwrap();
    let (code, _, said) = stage.run(&words.join(" "));
    assert_eq!(code, 64, "{said}");
    assert!(said.contains("FENCEPOST_ADMIN_TOKEN"), "{said}");
    // The variables that it is given are the ones that it reads.
    let environment = services()["checkout"]["environment"]
        .as_object()
        .unwrap()
        .clone();
    let (_, help, _) = stage.run("serve --help");
    for name in environment.keys().filter(|name| *name != "FENCEPOST_STORE") {
        assert!(help.contains(&**name), "serve --help does not know {name}");
    }
}

pub(crate) fn every_path_is_there() {
    let compose = yaml("compose.yml");
    let volumes = compose["volumes"].as_object().unwrap();
    for (name, service) in services() {
        let mounts = service["volumes"].as_array().into_iter().flatten();
        // A mount in memory needs nothing that exists.
        for mount in mounts.filter(|mount| mount["type"] != "tmpfs") {
            let place = mount.as_str().unwrap().split(':').next().unwrap();
            let is_there = match place.strip_prefix("./") {
                Some(path) => folder().join(path).exists(),
                None => volumes.contains_key(place),
            };
            assert!(is_there, "{name}: {mount}");
        }
        for other in service["depends_on"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
        {
            let other = services().remove(other).unwrap();
            // A service whose health others wait for must have a health check; ours has it from its image.
            assert!(
                !other["healthcheck"].is_null() || !other["build"].is_null(),
                "{name}"
            );
        }
        if let Some(file) = service["build"]["dockerfile"].as_str() {
            let context = folder().join(service["build"]["context"].as_str().unwrap());
            assert!(context.join(file).is_file(), "{file}");
            assert!(context.join("Cargo.lock").is_file(), "{context:?}");
        }
    }
    let config = services()["prometheus"]["command"].to_string();
    assert!(
        config.contains("--config.file=/etc/prometheus/prometheus.yml"),
        "{config}"
    );
    // By name rather than by address, so that all instances are watched.
    let found = &yaml("prometheus/prometheus.yml")["scrape_configs"][0]["dns_sd_configs"][0];
    let command = services()["checkout"]["command"].to_string();
    assert_eq!(found["names"], serde_json::json!(["checkout"]));
    assert_eq!(found["type"], "A", "what Docker's DNS has");
    let port = format!(r#""--port","{}""#, found["port"]);
    assert!(command.contains(&port), "{port}: {command}");
}

/// If the shop cannot start, its alerts must, or nobody is told.
pub(crate) fn watchers_wait_for_nobody() {
    let services = services();
    for name in ["prometheus", "grafana"] {
        let waits_for = &services[name]["depends_on"];
        assert!(waits_for.is_null(), "{name} waits for {waits_for}");
    }
}

/// For a volume of the image that a service does not mount, Docker makes one without a name, which stays behind.
pub(crate) fn no_volume_is_without_a_name() {
    let dockerfile = text("Dockerfile");
    let volumes: Vec<&str> = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("VOLUME "))
        .collect();
    assert!(!volumes.is_empty(), "then this test is of no use");
    for (name, _) in ours() {
        let service = services().remove(&name).unwrap();
        let mounts = service["volumes"].as_array().cloned().unwrap_or_default();
        let targets: Vec<&str> = mounts
            .iter()
            .filter_map(|mount| match mount.as_str() {
                Some(text) => text.split(':').nth(1),
                None => mount["target"].as_str(),
            })
            .collect();
        for volume in &volumes {
            assert!(targets.contains(volume), "{name}: {volume} of {targets:?}");
        }
    }
}

pub(crate) fn images_are_pinned() {
    let dockerfile = text("Dockerfile");
    let from = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("FROM "));
    let mut images: Vec<String> = from
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    images.extend(
        services()
            .values()
            .map(|service| service["image"].as_str().unwrap().to_owned()),
    );
    assert!(images.len() >= 8, "{images:?}");
    for image in images {
        let tag = image.rsplit_once(':').map(|(_, tag)| tag);
        let is_pinned = tag.is_some_and(|tag| tag != "latest" && !tag.is_empty());
        assert!(is_pinned, "{image}");
    }
}

pub(crate) fn no_secret_has_a_default() {
    let example = text(".env.example");
    let set = example.lines().filter(|line| !line.starts_with('#'));
    let names: BTreeSet<&str> = set
        .filter_map(|line| line.split_once('='))
        .inspect(|(name, value)| assert!(value.is_empty(), "{name} has a value"))
        .map(|(name, _)| name)
        .collect();
    let compose = text("compose.yml");
    let used = compose.match_indices("${").map(|(at, _)| {
        let rest = &compose[at + 2..];
        &rest[..rest.find('}').unwrap()]
    });
    let mut asked = BTreeSet::new();
    for variable in used {
        let (name, rest) = variable
            .split_once(":?")
            .unwrap_or_else(|| panic!("{variable} may be empty"));
        assert!(!rest.is_empty());
        asked.insert(name);
    }
    assert_eq!(asked, names, "compose.yml and .env.example");
}

/// The service needs up to 17 s if something hangs; its own tests allow 20.
pub(crate) fn nobody_is_killed_while_it_stops() {
    let grace = services()["checkout"]["stop_grace_period"].clone();
    let seconds = grace.as_str().and_then(|text| text.strip_suffix('s'));
    let seconds: u64 = seconds.and_then(|text| text.parse().ok()).unwrap();
    assert!(seconds > 20, "{grace}");
}

pub(crate) fn redis_keeps_locks() {
    let command = services()["redis"]["command"].to_string();
    for words in [
        "--maxmemory-policy noeviction",
        "--appendonly yes",
        "--requirepass",
    ] {
        assert!(command.contains(words), "{words}: {command}");
    }
}

pub(crate) fn runs_as_nobody_special() {
    let dockerfile = text("Dockerfile");
    let last = dockerfile.rsplit("\nFROM ").next().unwrap();
    let user = last.lines().find_map(|line| line.strip_prefix("USER "));
    assert!(
        user.is_some_and(|user| !user.starts_with('0') && user != "root"),
        "{user:?}"
    );
    let after = &last[last.find("\nUSER ").unwrap()..];
    assert!(
        !after.contains("\nRUN ") && after.contains("\nENTRYPOINT "),
        "{after}"
    );
}

/// Runs the exact command of the image: it reports "healthy" for a service that is ready, and for nothing else.
pub(crate) fn its_healthcheck_tells() {
    let dockerfile = text("Dockerfile");
    let check = dockerfile.split("HEALTHCHECK").nth(1).unwrap();
    let words = check
        .lines()
        .find_map(|line| line.trim().strip_prefix("CMD "))
        .unwrap();
    let words: Vec<String> = serde_json::from_str(words).unwrap();
    let is_healthy = |port: u16| {
        let words = words
            .iter()
            .map(|word| word.replace("/8080", &format!("/{port}")));
        let words: Vec<String> = words.collect();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().unwrap().success()
    };
    let stage = Stage::new();
    let service = stage.serve("--quiet");
    let port = service.client.0.port();
    assert!(is_healthy(port));
    drop(service);
    assert!(!is_healthy(port), "nobody is there");
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 512]).unwrap();
        stream
            .write_all(b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
            .unwrap();
    });
    assert!(!is_healthy(port), "not ready");
    answers.join().unwrap();
}
