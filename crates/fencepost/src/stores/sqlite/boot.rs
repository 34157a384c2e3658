//! The identity of this boot of the machine. Boot times of different boots cannot be compared.

use crate::error::{Error, ErrorKind, Operation, Result};

/// Returns the identity of this boot.
#[cfg(target_os = "linux")]
pub(super) fn current_id() -> Result<String> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::read_to_string(PATH) {
        Ok(id) if !id.trim().is_empty() => Ok(id.trim().to_owned()),
        Ok(_) => Err(unknown(format!("{PATH} is empty"))),
        Err(error) => {
            Err(unknown(format!("{PATH} cannot be read: mount /proc")).with_source(error))
        }
    }
}

/// Returns an error: on this system nothing distinguishes a lease of this boot from one of an earlier boot.
#[cfg(not(target_os = "linux"))]
pub(super) fn current_id() -> Result<String> {
    Err(unknown(
        "the identity of a boot is known on Linux only".to_owned(),
    ))
}

fn unknown(why: String) -> Error {
    Error::new(ErrorKind::Unusable, super::STORE, Operation::Open, why)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_boot_has_one_identity() {
        let id = super::current_id().unwrap();
        assert_eq!(id, super::current_id().unwrap());
        assert_eq!(id.len(), 36, "{id}");
    }
}
