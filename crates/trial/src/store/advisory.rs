//! The choice of the library's advisory locks: `postgres?locks=advisory`. Without it, the library keeps its locks in a table.

/// The parameter of the lab. Parameters of the library may follow, as in `?locks=advisory&fence=transaction-id`.
const CHOICE: &str = "?locks=advisory";
/// The parameters of the library that may follow.
const FURTHER: [&str; 3] = ["", "&fence=sequence", "&fence=transaction-id"];

/// Returns whether these are parameters of private servers with advisory locks.
pub(super) fn is_chosen_by(parameters: &str) -> bool {
    parameters
        .strip_prefix(CHOICE)
        .is_some_and(|further| FURTHER.contains(&further))
}

/// Splits an address before the parameter of the lab. The second part is what the library is told; `None` if the address does not ask for
/// advisory locks.
pub(super) fn split(url: &str) -> (&str, Option<&str>) {
    match url.split_once(CHOICE) {
        Some((url, further)) => (url, Some(further)),
        None => (url, None),
    }
}

/// Returns the address that the library opens; `None` if this one does not ask for advisory locks.
#[cfg(feature = "postgres")]
pub(super) fn address(url: &str) -> Option<String> {
    let (url, further) = split(url);
    Some(match further?.strip_prefix('&') {
        Some(parameters) => format!("{url}?{parameters}"),
        None => url.to_owned(),
    })
}

/// Returns the endpoint for a program that does not know the parameter.
pub(super) fn without_choice(endpoint: &str) -> String {
    match endpoint.rsplit_once('#') {
        Some((url, space)) => format!("{}#{space}", split(url).0),
        None => split(endpoint).0.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_lab_understands_chooses_advisory_locks() {
        for (parameters, expected) in [
            ("?locks=advisory", true),
            ("?locks=advisory&fence=sequence", true),
            ("?locks=advisory&fence=transaction-id", true),
            ("?locks=table", false),
            ("?locks=advisory&fence=none", false),
            ("?locks=advisoryfence=sequence", false),
            ("", false),
        ] {
            assert_eq!(is_chosen_by(parameters), expected, "{parameters}");
        }
    }

    #[test]
    fn a_program_of_the_user_sees_nothing_of_the_choice() {
        for (endpoint, expected) in [
            (
                "postgres://u@h/d?locks=advisory#lab",
                "postgres://u@h/d#lab",
            ),
            ("postgres://u@h/d#lab", "postgres://u@h/d#lab"),
        ] {
            assert_eq!(without_choice(endpoint), expected);
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn the_library_is_told_what_is_its_own() {
        for (url, expected) in [
            ("postgres://h/d", None),
            ("postgres://h/d?locks=advisory", Some("postgres://h/d")),
            (
                "postgres://h/d?locks=advisory&fence=transaction-id",
                Some("postgres://h/d?fence=transaction-id"),
            ),
        ] {
            assert_eq!(address(url).as_deref(), expected, "{url}");
        }
    }
}
