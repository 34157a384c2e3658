//! Tests of `doctor` on SQLite files.

use std::os::unix::fs::PermissionsExt;

use super::{Seen, fencepost, finish};

/// Returns a folder on a disk, if the build is on one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn header(journal: u8) -> Vec<u8> {
    let mut header = b"SQLite format 3\0".to_vec();
    header.resize(100, 0);
    header[18] = journal;
    header
}

#[test]
fn a_file_of_locks_and_one_that_is_not_there_yet() {
    let folder = folder();
    let path = folder.path().join("locks.db");
    let store = format!("sqlite:{}", path.display());
    let seen = Seen::at(&store);
    assert_eq!(seen.troubles(), [] as [&str; 0]);
    seen.says("no file yet");
    assert!(!path.exists(), "it only looks");
    std::fs::write(&path, header(2)).unwrap();
    let seen = Seen::at(&store);
    assert_eq!(seen.troubles(), [] as [&str; 0]);
    seen.says("write-ahead log");
    std::fs::write(&path, header(1)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let seen = Seen::at(&store);
    assert_eq!(seen.troubles(), ["caution journal", "caution rights"]);
}

#[test]
fn what_is_no_place_for_a_file_is_told() {
    let folder = folder();
    let other = folder.path().join("letter.txt");
    std::fs::write(&other, "Dear Sir or Madam").unwrap();
    for path in [
        other,
        folder.path().join("nowhere/locks.db"),
        folder.path().to_owned(),
    ] {
        let ran = finish(
            fencepost("doctor --store")
                .arg(format!("sqlite:{}", path.display()))
                .output()
                .unwrap(),
        );
        assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
        assert!(
            ran.stderr.starts_with("error: cannot reach the store\n"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn memory_forgets_fences() {
    if !std::fs::read_to_string("/proc/mounts").is_ok_and(|text| text.contains(" /dev/shm tmpfs "))
    {
        println!("skipped: no tmpfs at /dev/shm");
        return;
    }
    let seen = Seen::at("sqlite:/dev/shm/fencepost-doctor-locks.db");
    assert_eq!(seen.troubles(), ["caution file system"]);
}
