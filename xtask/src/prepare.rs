//! The system packages that the tests need, and their installation.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::clients;
use crate::runner;
use crate::terminal::say;

/// A dependency of the tests that cargo does not install.
struct Need {
    /// What must exist: a program in PATH, a file with an absolute path, or a `.proto` file that protoc finds.
    program: &'static str,
    /// The Debian package that contains it.
    package: &'static str,
    used_for: &'static str,
    /// Whether it is optional: tests that use it cannot run everywhere and are skipped without it.
    optional: bool,
}

#[rustfmt::skip]
const NEEDS: &[Need] = &[
    Need { program: "python3", package: "python3", optional: false,
           used_for: "a client in another language that reads our SQLite file, and locks that the lab tries" },
    Need { program: "faketime", package: "faketime", optional: false,
           used_for: "a child process whose system time is set back" },
    Need { program: "redis-server", package: "redis-server", optional: false,
           used_for: "private servers of the lab" },
    Need { program: "pg_ctlcluster", package: "postgresql", optional: false,
           used_for: "private Postgres servers" },
    Need { program: "/usr/sbin/pgbouncer", package: "pgbouncer", optional: false,
           used_for: "a pooler, which the locks in Postgres must recognise" },
    Need { program: "etcd", package: "etcd-server", optional: false,
           used_for: "private etcd clusters" },
    Need { program: "etcdctl", package: "etcd-client", optional: false,
           used_for: "etcdctl lock, which excludes ours" },
    Need { program: "protoc", package: "protobuf-compiler", optional: false,
           used_for: "building the etcd client" },
    Need { program: "google/protobuf/descriptor.proto", package: "libprotobuf-dev", optional: false,
           used_for: "building the etcd client: protoc includes it" },
    Need { program: "java", package: "default-jdk-headless", optional: false,
           used_for: "private ZooKeeper servers" },
    Need { program: "javac", package: "default-jdk-headless", optional: false,
           used_for: "a program with Curator's locks, which exclude ours" },
    Need { program: "/usr/share/java/zookeeper.jar", package: "zookeeper", optional: false,
           used_for: "private ZooKeeper servers" },
    Need { program: "/usr/share/java/curator-recipes.jar", package: "libcurator-recipes-java", optional: false,
           used_for: "a program with Curator's locks, which exclude ours" },
    Need { program: "promtool", package: "prometheus", optional: false,
           used_for: "alert rules, and a private Prometheus that reads the service" },
    Need { program: "psql", package: "postgresql", optional: false,
           used_for: "private servers, and sessions of psql whose locks exclude ours" },
    Need { program: "pip3", package: "python3-pip", optional: true,
           used_for: "redis-py and kazoo, whose locks exclude ours" },
    Need { program: "node", package: "nodejs", optional: true,
           used_for: "node redlock, whose locks exclude ours, and a lock in Node that the lab tries" },
    Need { program: "npm", package: "npm", optional: true,
           used_for: "node redlock, whose locks exclude ours" },
    Need { program: "chromium", package: "chromium", optional: true,
           used_for: "reports in a real browser" },
    Need { program: "bindfs", package: "bindfs", optional: true,
           used_for: "a file system through FUSE" },
    Need { program: "fusermount3", package: "fuse3", optional: true,
           used_for: "a file system through FUSE" },
];

/// Returns whether this process may install packages and mount file systems.
pub(crate) fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Whether nothing may be installed.
static OFFLINE: AtomicBool = AtomicBool::new(false);

/// Makes a test that cannot run fail instead of being skipped, if this process may install and mount everything.
pub(crate) fn no_skipping(command: &mut Command) {
    if is_root() && !OFFLINE.load(Ordering::Relaxed) {
        command.env("FENCEPOST_NO_SKIP", "1");
    }
}

/// If it is set, nothing is looked for and nothing is installed: our own tests run `cargo xtask test` with a cargo that runs no tests.
const PREPARED: &str = "FENCEPOST_PREPARED";

/// Installs nothing from now on: tests whose programs are missing are skipped, also if this process is root.
///
/// # Errors
/// Returns an error if a test that is never skipped needs something that is missing.
pub(crate) fn stay_offline() -> Result<()> {
    OFFLINE.store(true, Ordering::Relaxed);
    programs(false)
}

/// Makes sure that all dependencies exist. Installs missing ones as root or, with `install`, through sudo. Third-party programs are
/// downloaded into `.tools`.
///
/// # Errors
/// Returns an error if something is missing and may not or cannot be installed. The error says what to do.
pub(crate) fn run(install: bool) -> Result<()> {
    if std::env::var_os(PREPARED).is_some() {
        say(format!(
            "{PREPARED} is set: nothing is looked for or installed"
        ));
        return Ok(());
    }
    programs(install)?;
    clients::install()
}

fn programs(install: bool) -> Result<()> {
    let missing = missing(NEEDS);
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = is_root();
    let may_install = (is_root || install) && !OFFLINE.load(Ordering::Relaxed);
    let can_install = find_program("apt-get").is_some() && may_install;
    let (optional, required): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|need| need.optional);
    if can_install {
        let apt = Apt {
            through_sudo: !is_root,
        };
        apt.update()?;
        apt.install(&required)?;
        if let Err(error) = apt.install(&optional) {
            say(format!(
                "note: continuing without optional packages: {error:#}"
            ));
        }
        return Ok(());
    }
    if !optional.is_empty() {
        say(format!(
            "note: tests that need these are skipped:\n{}",
            describe(&optional)
        ));
    }
    if !required.is_empty() {
        bail!(
            "{}",
            how_to_install(&required, find_program("apt-get").is_some())
        );
    }
    Ok(())
}

fn missing(needs: &[Need]) -> Vec<&Need> {
    needs
        .iter()
        .filter(|need| find(need.program).is_none())
        .collect()
}

fn find(name: &str) -> Option<PathBuf> {
    if name.ends_with(".proto") {
        find_include(name, &include_folders())
    } else {
        find_program(name)
    }
}

/// Returns the folders in which protoc looks for includes: the configured one, one beside protoc itself, and Debian's.
fn include_folders() -> Vec<PathBuf> {
    let configured = std::env::var_os("PROTOC_INCLUDE").map(PathBuf::from);
    let protoc = std::env::var_os("PROTOC").map(PathBuf::from);
    let protoc = protoc.or_else(|| find_program("protoc"));
    let beside = protoc.and_then(|protoc| Some(protoc.parent()?.parent()?.join("include")));
    let all = [configured, beside, Some("/usr/include".into())];
    all.into_iter().flatten().collect()
}

fn find_include(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let mut files = folders.iter().map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

fn find_program(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|file| file.exists());
    }
    let path = runner::path_with_tools();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn packages<'a>(needs: &[&'a Need]) -> Vec<&'a str> {
    let mut packages: Vec<_> = needs.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn describe(needs: &[&Need]) -> String {
    let line = |need: &&Need| {
        format!(
            "  {} (package {}): {}",
            need.program, need.package, need.used_for
        )
    };
    needs.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn how_to_install(needs: &[&Need], has_apt: bool) -> String {
    let names = packages(needs).join(" ");
    let way = if has_apt {
        format!(
            "Install it with\n  sudo apt-get update && sudo apt-get install -y {names}\nor run this again with --install."
        )
    } else {
        "There is no apt-get here. Install them with your system's package manager, then run this again.".into()
    };
    format!(
        "the tests need packages that are not installed:\n{}\n{way}",
        describe(needs)
    )
}

fn still_missing(needs: &[&Need]) -> String {
    format!(
        "the packages are installed, and this is still missing; please install it by hand:\n{}",
        describe(needs)
    )
}

struct Apt {
    through_sudo: bool,
}

impl Apt {
    fn update(&self) -> Result<()> {
        self.run(&["update"])
    }

    fn install(&self, needs: &[&Need]) -> Result<()> {
        if needs.is_empty() {
            return Ok(());
        }
        let names = packages(needs);
        say(format!("installing {}", names.join(" ")));
        self.run(
            &[
                &["install", "-y", "--no-install-recommends"],
                names.as_slice(),
            ]
            .concat(),
        )?;
        let still: Vec<_> = needs
            .iter()
            .filter(|need| find(need.program).is_none())
            .copied()
            .collect();
        if !still.is_empty() {
            bail!("{}", still_missing(&still));
        }
        Ok(())
    }

    /// Runs a command quietly; the error contains its whole output.
    fn run(&self, arguments: &[&str]) -> Result<()> {
        let mut words = vec![
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "-o",
            "DPkg::Lock::Timeout=120",
        ];
        words.extend(arguments);
        if self.through_sudo {
            words.insert(0, "sudo");
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        let output = command
            .output()
            .with_context(|| format!("cannot start {}", words[0]))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            bail!(
                "{} failed:\n{}",
                words.join(" "),
                String::from_utf8_lossy(&said).trim_end()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need {
        program: "no-program-has-this-name",
        package: "strange-package",
        used_for: "this test",
        optional: false,
    };

    #[test]
    fn a_program_is_found_on_the_search_path_or_missed() {
        assert!(find_program("sh").is_some());
        let needs = [
            Need {
                program: "sh",
                ..ABSENT
            },
            ABSENT,
        ];
        let names: Vec<_> = missing(&needs).iter().map(|need| need.program).collect();
        assert_eq!(names, ["no-program-has-this-name"]);
    }

    /// The release archive of protoc has a folder `include` beside `bin`.
    #[test]
    fn an_include_of_protoc_is_found_in_any_of_its_folders() {
        const NAME: &str = "google/protobuf/descriptor.proto";
        let folder = tempfile::tempdir().unwrap();
        let (empty, full) = (folder.path().join("empty"), folder.path().join("include"));
        let file = full.join(NAME);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(find_include(NAME, std::slice::from_ref(&empty)), None);
        assert_eq!(find_include(NAME, &[empty, full]), Some(file));
    }

    #[test]
    fn what_an_install_did_not_bring_is_not_said_to_be_off_the_search_path() {
        let include = Need {
            program: "google/protobuf/descriptor.proto",
            ..ABSENT
        };
        let text = still_missing(&[&include]);
        assert!(text.contains("descriptor.proto"), "{text}");
        assert!(!text.contains("search path"), "{text}");
    }

    #[test]
    fn the_line_that_installs_names_each_package_once() {
        let twice = Need {
            program: "another",
            ..ABSENT
        };
        let text = how_to_install(&[&ABSENT, &twice], true);
        assert!(
            text.contains("sudo apt-get install -y strange-package\n"),
            "{text}"
        );
        assert!(text.contains("this test"), "{text}");
        let text = how_to_install(&[&ABSENT], false);
        assert!(!text.contains("sudo"), "{text}");
    }
}
