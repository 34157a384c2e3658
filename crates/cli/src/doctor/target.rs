//! The store to be examined.

use std::path::PathBuf;

use fencepost_trial::ground::reach::is_address;

use crate::arguments::{BadValue, without_password};

/// What `--store` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A server at this address.
    Redis(String),
    /// A file, whether it is there yet or not.
    Sqlite(PathBuf),
}

const ADVICE: &str = "--store redis://HOST, unix:/PATH or sqlite:PATH";

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, BadValue> {
        let refuse = |what: String| {
            Err(BadValue {
                what,
                advice: ADVICE.into(),
            })
        };
        if let Some(path) = text.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
            return Ok(Self::Sqlite(path.into()));
        }
        match text {
            "sqlite" => refuse("the doctor has to be told which file".into()),
            "redis" => refuse("a private server has nothing to be examined for".into()),
            address if address.starts_with("rediss://") => {
                refuse("this program was built without TLS".into())
            }
            address if is_address(address) || address.starts_with("unix:/") => {
                Ok(Self::Redis(address.to_owned()))
            }
            other => refuse(format!(
                "'{}' is no store that can be examined",
                without_password(other)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_server_or_a_file() {
        for address in [
            "redis://cache",
            "redis://u:p@cache:6380/2",
            "unix:/run/redis.sock",
        ] {
            assert_eq!(Target::parse(address), Ok(Target::Redis(address.into())));
        }
        let file = Target::Sqlite("/srv/my locks.db".into());
        assert_eq!(Target::parse("sqlite:/srv/my locks.db"), Ok(file));
        for refused in [
            "sqlite",
            "sqlite:",
            "redis",
            "rediss://h",
            "etcd://u:hunter2@h",
        ] {
            let error = Target::parse(refused).unwrap_err();
            assert!(!error.what.contains("hunter2"), "{}", error.what);
        }
    }
}
