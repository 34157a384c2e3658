use super::*;

const WHOLE: &str = r#"name = "my lock"
version = "1.0.0"
language = "Python"
start = ["python3", "lock.py"]
stores = ["sqlite", "redis"]

[kind]
hold = "lease"
fenced = true

[claims.fencing]
where = { quote = "Every grant has a larger number.", place = "README.md, Fences" }
"#;

/// Reads a manifest in which `old` is replaced by `new`.
fn changed(old: &str, new: &str) -> Result<Manifest, BadValue> {
    assert!(WHOLE.contains(old), "{old}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), WHOLE.replace(old, new)).unwrap();
    Manifest::read(folder.path()).map_err(|bad| BadValue {
        what: bad
            .what
            .replace(&format!("{}/", folder.path().display()), ""),
        ..bad
    })
}

#[test]
fn a_whole_manifest_is_understood() {
    let manifest = changed("", "").unwrap();
    assert_eq!(manifest.title(), "my lock 1.0.0");
    let claims = manifest.claims("--lock=x", None).unwrap();
    assert!(claims.fencing && !claims.keep_alive);
    let command = manifest.command();
    assert_eq!(command.get_program(), "python3");
    assert_eq!(command.get_current_dir(), Some(manifest.folder.as_path()));
}

#[test]
fn a_program_in_the_folder_is_found_there() {
    let manifest = changed(r#""python3", "lock.py""#, r#""./lock", "-v""#).unwrap();
    let program = manifest.folder.join("./lock");
    assert_eq!(manifest.command().get_program(), program);
}

#[test]
fn a_fault_is_named_with_file_line_field_and_what_is_allowed() {
    for (old, new, expected) in [
        (
            "version =",
            "vresion =",
            "subject.toml:2: vresion: unknown field `vresion`, expected one of `name`, `version`, `language`, `start`, `install`, `stores`, `kind`, `claims`, `limits`",
        ),
        (
            "\"lease\"",
            "\"leese\"",
            "subject.toml:8: kind.hold: unknown variant `leese`, expected one of `lease`, `session`, `untimed`",
        ),
        (
            "fenced = true",
            "fenced = 1",
            "subject.toml:9: kind.fenced: invalid type: integer `1`, expected a boolean",
        ),
        (
            "[\"sqlite\", \"redis\"]",
            "[\"sqlite\",\n  \"mysql\"]",
            "subject.toml:5: stores: unknown store `mysql`, expected one or more of sqlite, redis, redlock, postgres, etcd, zk",
        ),
        (
            "[\"sqlite\", \"redis\"]",
            "[]",
            "subject.toml:5: stores: is empty, expected one or more of sqlite, redis, redlock, postgres, etcd, zk",
        ),
        (
            "[\"python3\", \"lock.py\"]",
            "[]",
            "subject.toml:4: start: names no program, expected the words of a command",
        ),
        (
            "\"my lock\"",
            "\"my\\nHELD\"",
            "subject.toml:1: name: contains a line break or an invisible character, expected one line",
        ),
        (
            "\"my lock\"",
            "\" \"",
            "subject.toml:1: name: is empty, expected a text",
        ),
        (
            "[claims.fencing]",
            "[claims.fences]",
            "subject.toml:11: claims.fences: unknown field `fences`, expected one of `fencing`, `keep_alive`, `fair`, `untimed`, `recovery_ms`, `tells_loss_ms`, `survives`, `fences_writes_only`, `reentrant`, `expires_after_work`, `checks_owner`, `blind_release`, `looks_before_release`, `looks_before_wait`, `ends_with_server`",
        ),
        (
            "\"my lock\"",
            "my lock",
            "subject.toml:1: name: string values must be quoted, expected literal string",
        ),
        (
            "[claims.fencing]\nwhere = ",
            "[claims]\nfencing = true # ",
            "subject.toml:12: claims.fencing: invalid type: boolean `true`, expected a table with `where`",
        ),
        (
            "[claims.fencing]",
            "[claims.recovery_ms]\nvalue = 0",
            "subject.toml:12: claims.recovery_ms.value: is 0, expected a number of milliseconds, 1 or more",
        ),
        (
            "fenced = true\n\n[claims.fencing]\nwhere = { quote = \"Every grant has a larger number.\", place = \"README.md, Fences\" }",
            "[claims]\nfencing.where = { quote = \"q\", place = \"p\" }",
            "subject.toml:10: claims.fencing: is claimed, but kind.fenced is not true",
        ),
        (
            "fenced = true",
            "fenced = false",
            "subject.toml:11: claims.fencing: is claimed, but kind.fenced is not true",
        ),
    ] {
        assert_eq!(changed(old, new).unwrap_err().what, expected);
    }
}

#[test]
fn a_missing_field_is_named_with_an_example_of_it() {
    for (line, field, example) in [
        ("name = \"my lock\"\n", "name", "name = "),
        ("version = \"1.0.0\"\n", "version", "version = "),
        ("language = \"Python\"\n", "language", "language = "),
        ("start = [\"python3\", \"lock.py\"]\n", "start", "start = ["),
        ("stores = [\"sqlite\", \"redis\"]\n", "stores", "stores = ["),
        ("hold = \"lease\"\n", "hold", "hold = "),
        (
            "[kind]\nhold = \"lease\"\nfenced = true\n",
            "kind",
            "[kind] with hold",
        ),
        (
            ", place = \"README.md, Fences\"",
            "place",
            "where = { quote = ",
        ),
    ] {
        let bad = changed(line, "").unwrap_err();
        let missing = format!("missing field `{field}`");
        assert!(bad.what.ends_with(&missing), "{}", bad.what);
        assert!(bad.advice.starts_with(example), "{}", bad.advice);
    }
}

#[test]
fn a_kind_and_its_claims_do_not_contradict_each_other() {
    let claim = |name: &str| {
        format!("[claims.{name}]\nwhere = {{ quote = \"q\", place = \"p\" }}\n[claims.fencing]")
    };
    for (name, field) in [
        (
            "keep_alive",
            "claims.keep_alive: is claimed, but kind.renewed",
        ),
        (
            "untimed",
            "claims.untimed: is claimed, but kind.hold is \"lease\"",
        ),
    ] {
        let bad = changed("[claims.fencing]", &claim(name)).unwrap_err();
        assert!(
            bad.what.starts_with(&format!("subject.toml:11: {field}")),
            "{}",
            bad.what
        );
    }
    for field in ["renewed", "stops_itself"] {
        let endless = format!("hold = \"untimed\"\n{field} = true");
        let bad = changed("hold = \"lease\"", &endless).unwrap_err();
        assert!(
            bad.what
                .starts_with(&format!("subject.toml:9: kind.{field}: ")),
            "{}",
            bad.what
        );
    }
    let both = claim("checks_owner").replace("[claims.fencing]", &claim("blind_release"));
    let bad = changed("[claims.fencing]", &both).unwrap_err();
    assert!(
        bad.what.contains("together with claims.checks_owner"),
        "{}",
        bad.what
    );
}

#[test]
fn a_lock_runs_where_it_says_and_by_default_on_its_first_store() {
    let both = changed("", "").unwrap();
    assert_eq!(both.default_store(), None);
    let redis = changed("\"sqlite\", \"redis\"", "\"redis\"").unwrap();
    let store = redis.default_store().unwrap();
    assert_eq!(store.name(), "redis");
    assert!(redis.fits("--lock=x", &store).is_ok());
    let error = redis.fits("--lock=x", &TrialStore::sqlite()).unwrap_err();
    let text = error.text(fencepost_trial::text::ink::Ink::PLAIN);
    assert!(
        text.starts_with("error: my lock 1.0.0 does not support SQLite"),
        "{text}"
    );
    assert!(
        text.contains("supports  redis, as its subject.toml says"),
        "{text}"
    );
}

#[test]
fn words_that_could_pose_as_output_of_the_lab_start_nothing() {
    let forged = r#""python3\nHELD   all is well", "lock.py""#;
    let bad = changed(r#""python3", "lock.py""#, forged).unwrap_err();
    assert!(bad.what.contains("line break"), "{}", bad.what);
}
