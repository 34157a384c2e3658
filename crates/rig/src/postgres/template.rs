//! A template of the data folder that is created once and copied for every Postgres server. `initdb` takes a second, a copy a fifth of
//! that.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Environment, ServerError, ended_well, make_home, not_installed, programs, user};
use crate::folder::{TempDir, folder};

/// The environment variable that names the folder to copy. Without it, every server creates its own data.
const VARIABLE: &str = "FENCEPOST_POSTGRES_TEMPLATE";

/// The data of a server that never ran. Dropping it removes the data; servers that were created from it have their own copy.
#[derive(Debug)]
pub struct PostgresTemplate {
    data: PathBuf,
    _folder: TempDir,
}

impl PostgresTemplate {
    /// Creates the data.
    ///
    /// # Errors
    /// Returns the same errors as [`Postgres::start`](super::Postgres::start).
    pub fn make() -> Result<Self, ServerError> {
        let programs = programs().ok_or(not_installed("Postgres"))?;
        let user = user()?;
        let folder = folder()?;
        let home = make_home(&folder, user.as_ref())?;
        let environment = Environment {
            programs: &programs,
            folder: &home,
            user: user.as_ref(),
        };
        environment.compute_data()?;
        Ok(Self {
            data: environment.data(),
            _folder: folder,
        })
    }

    /// Returns the environment variable, as name and value, that makes processes create their servers from this template.
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.data.display().to_string())
    }
}

/// Returns the template that the environment names.
pub(super) fn of_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

impl Environment<'_> {
    /// Copies a template to the data folder of this server.
    pub(super) fn copy_data(&self, template: &Path) -> Result<(), ServerError> {
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto"]).arg(template);
        copy.arg(self.data()).stdin(Stdio::null());
        self.run_as_its_user(&mut copy);
        ended_well(&mut copy, "could not copy the folder for its data")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::postgres::Postgres;
    use crate::postgres::tests::ask;

    #[test]
    fn servers_of_one_template_have_data_of_their_own() {
        let template = PostgresTemplate::make().unwrap();
        let [one, other] =
            [(); 2].map(|()| Postgres::start_from(Some(&template.data), &[]).unwrap());
        drop(template);
        ask(&one, "create table t as select 7 as x");
        assert_eq!(ask(&one, "select x from t"), "7");
        assert_eq!(ask(&other, "select to_regclass('t') is null"), "t");
    }

    #[test]
    fn without_the_template_a_server_makes_its_own_data() {
        let gone = Path::new("/no/template/is/here");
        let server = Postgres::start_from(Some(gone), &[]).unwrap();
        assert_eq!(ask(&server, "select 1"), "1");
    }
    #[test]
    fn half_a_copy_does_not_stop_a_server_from_making_its_own_data() {
        let half = tempfile::tempdir().unwrap();
        let open_to_all = Permissions::from_mode(0o755);
        std::fs::set_permissions(half.path(), open_to_all).unwrap();
        std::fs::write(half.path().join("PG_VERSION"), "15").unwrap();
        let secret = half.path().join("secret");
        std::fs::write(&secret, "").unwrap();
        std::fs::set_permissions(&secret, Permissions::from_mode(0o000)).unwrap();
        let server = Postgres::start_from(Some(half.path()), &[]).unwrap();
        assert_eq!(ask(&server, "select 1"), "1");
    }
}
