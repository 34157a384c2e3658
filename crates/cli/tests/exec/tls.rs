//! Tests of locks on TLS servers with a private certificate authority that the address names.

use fencepost_rig::{Authority, Redis, TempDir, folder};

use crate::stage::Stage;

/// The files of an authority and its certificates.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            folder: folder().unwrap(),
        };
        let authority = Authority::new();
        files.write("ca.pem", &authority.certificate);
        for (file, name) in [("server", "127.0.0.1"), ("client", "client")] {
            let signed = authority.sign(name);
            files.write(&format!("{file}.pem"), &signed.certificate);
            files.write(&format!("{file}.key"), &signed.key);
        }
        files.write("other.pem", &Authority::new().certificate);
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

const EXEC: &[&str] = &["exec", "--name", "deploy", "--", "true"];
const LIST: &[&str] = &["locks", "list"];
const DOCTOR: &[&str] = &["doctor"];

/// Tries a server at `address` that requires client certificates, with and without the files that the address names.
fn tried_with_certificates(address: &str, files: &Files) {
    let path = |name: &str| files.path(name);
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let all = format!("{address}?ca={ca}&cert={cert}&key={key}");
    let stage = Stage::with_store(all);
    let script = "echo > held; while test ! -e go; do sleep 0.01; done";
    let held = stage.shell("--name deploy", script);
    stage.until_lines("held", 1);
    let listed = stage.run(LIST);
    assert_eq!(listed.code(), 0, "{}", listed.stderr);
    assert!(listed.stdout.contains("deploy"), "{}", listed.stdout);
    std::fs::write(stage.path("go"), "").unwrap();
    let held = held.end();
    assert_eq!(held.code(), 0, "{}", held.stderr);
    // Exit codes 0 to 2 mean that the server was examined.
    let examined = stage.run(DOCTOR);
    assert!((0..=2).contains(&examined.code()), "{}", examined.stderr);

    let other = path("other.pem");
    for untrusted in ["", &format!("?ca={other}&cert={cert}&key={key}")] {
        for arguments in [EXEC, LIST] {
            let stage = Stage::with_store(format!("{address}{untrusted}"));
            let mut command = stage.fencepost(arguments);
            command.env("SSL_CERT_FILE", &ca);
            let refused = stage.start_command(command).end();
            assert_eq!(refused.code(), 69, "{untrusted}: {}", refused.stderr);
        }
    }
    let unshown = Stage::with_store(format!("{address}?ca={ca}")).run(EXEC);
    assert_eq!(unshown.code(), 69, "{}", unshown.stderr);

    files.write("cut-off.pem", "-----BEGIN CERTIFICATE-----\nMIIB");
    files.write(
        "garbled.pem",
        "-----BEGIN CERTIFICATE-----\nMII!\n-----END CERTIFICATE-----\n",
    );
    let plain = address.replacen("s://", "://", 1);
    for (wrong, words) in [
        (
            format!("{address}?ca={}", path("nowhere.pem")),
            "nowhere.pem: No such file",
        ),
        (
            format!("{address}?ca={}", path("cut-off.pem")),
            "no certificate in it",
        ),
        (
            format!("{address}?ca={}", path("garbled.pem")),
            "garbled.pem",
        ),
        (
            format!("{address}?ca={ca}&cert={cert}"),
            "cert=FILE&key=FILE",
        ),
        (
            format!("{address}?ca={ca}&cert={cert}&key={ca}"),
            "no private key in it",
        ),
        (format!("{plain}?ca={ca}"), "about TLS"),
    ] {
        let stage = Stage::with_store(wrong);
        for arguments in [EXEC, LIST, DOCTOR] {
            let ran = stage.run(arguments);
            assert_eq!(ran.code(), 64, "{arguments:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
        }
    }
}

#[cfg(feature = "etcd")]
#[test]
fn of_etcd() {
    let files = Files::new();
    let builder = fencepost_rig::Etcd::builder().tls();
    let arguments = [
        format!("--cert-file={}", files.path("server.pem")),
        format!("--key-file={}", files.path("server.key")),
        format!("--trusted-ca-file={}", files.path("ca.pem")),
        "--client-cert-auth".to_owned(),
    ];
    let builder = builder.arguments(arguments.iter().map(String::as_str));
    let server = builder.start().unwrap();
    tried_with_certificates(&format!("etcds://{}", server.address()), &files);
}

#[test]
fn of_redis() {
    let files = Files::new();
    let start = || {
        let port = fencepost_rig::free_port().ok()?.to_string();
        let server = Redis::builder().arguments([
            "--tls-port",
            &port,
            "--tls-ca-cert-file",
            &files.path("ca.pem"),
            "--tls-cert-file",
            &files.path("server.pem"),
            "--tls-key-file",
            &files.path("server.key"),
        ]);
        Some((server.start().ok()?, port))
    };
    // Another program may have taken the port in the meantime.
    let (_server, port) = (0..3).find_map(|_| start()).expect("a server with TLS");
    tried_with_certificates(&format!("rediss://127.0.0.1:{port}"), &files);
}
