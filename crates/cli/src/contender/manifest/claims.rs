//! The claims in a manifest, each with the place in the lock's own documentation where it is written.

use fencepost_trial::gauntlet::Kind;
use fencepost_trial::gauntlet::kind::EndsWith;
use fencepost_trial::protocol::Claims;
use serde::Deserialize;
use serde_json::Value;

use super::fields::Text;

/// The claims, in the words of the protocol. A claim that is absent is not made. That the lock is a session is not among them: its kind says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Promises {
    fencing: Option<Promise>,
    keep_alive: Option<Promise>,
    fair: Option<Promise>,
    untimed: Option<Promise>,
    recovery_ms: Option<PromisedTime>,
    tells_loss_ms: Option<PromisedTime>,
    survives: Option<Promise>,
    fences_writes_only: Option<Promise>,
    reentrant: Option<Promise>,
    expires_after_work: Option<Promise>,
    checks_owner: Option<Promise>,
    blind_release: Option<Promise>,
    looks_before_release: Option<Promise>,
    looks_before_wait: Option<Promise>,
    ends_with_server: Option<Promise>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `where`")]
pub(super) struct Promise {
    r#where: Place,
}

impl Promise {
    /// Returns what the documentation says, word for word.
    pub(super) fn quote(&self) -> String {
        self.r#where.quote.to_string()
    }

    /// Returns where it says so.
    pub(super) fn place(&self) -> String {
        self.r#where.place.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `value` and `where`")]
struct PromisedTime {
    value: Milliseconds,
    r#where: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
struct Milliseconds(u64);

impl TryFrom<i64> for Milliseconds {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        match u64::try_from(number) {
            Ok(milliseconds) if milliseconds > 0 => Ok(Self(milliseconds)),
            _ => Err(format!(
                "is {number}, expected a number of milliseconds, 1 or more"
            )),
        }
    }
}

/// A place in the lock's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `quote` and `place`")]
struct Place {
    quote: Text,
    place: Text,
}

impl Promises {
    /// Returns the claims of a lock of this kind.
    pub(super) fn claims(&self, kind: Kind) -> Claims {
        Claims {
            fencing: self.fencing.is_some(),
            keep_alive: self.keep_alive.is_some(),
            fair: self.fair.is_some(),
            untimed: self.untimed.is_some(),
            recovery_ms: self.recovery_ms.as_ref().map(|time| time.value.0),
            tells_loss_ms: self.tells_loss_ms.as_ref().map(|time| time.value.0),
            survives: self.survives.is_some(),
            fences_writes_only: self.fences_writes_only.is_some(),
            reentrant: self.reentrant.is_some(),
            expires_after_work: self.expires_after_work.is_some(),
            checks_owner: self.checks_owner.is_some(),
            blind_release: self.blind_release.is_some(),
            looks_before_release: self.looks_before_release.is_some(),
            looks_before_wait: self.looks_before_wait.is_some(),
            session: kind.hold == EndsWith::Session,
            ends_with_server: self.ends_with_server.is_some(),
        }
    }

    /// Returns a sentence for each claim that the program does not make as the manifest of a lock of this kind does. It need not repeat what its
    /// kind says.
    pub(super) fn differences(&self, kind: Kind, said: Claims) -> Vec<String> {
        let ours = self.claims(kind);
        let theirs = Claims {
            session: said.session || ours.session,
            ..said
        };
        let (ours, theirs) = (spelled(ours), spelled(theirs));
        let mut names: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
        names.sort();
        names.dedup();
        let differs = |name: &&String| value(&ours, name) != value(&theirs, name);
        let sentence = |name: &String| {
            let (ours, theirs) = (value(&ours, name), value(&theirs, name));
            let place = self.place(name).map_or_else(String::new, |place| {
                format!(" (\"{}\", {})", place.quote, place.place)
            });
            format!("{name}: {ours} in the manifest{place}, {theirs} in init_ok")
        };
        names.into_iter().filter(differs).map(sentence).collect()
    }

    fn place(&self, name: &str) -> Option<&Place> {
        let promise = match name {
            "fencing" => &self.fencing,
            "keep_alive" => &self.keep_alive,
            "fair" => &self.fair,
            "untimed" => &self.untimed,
            "recovery_ms" => return self.recovery_ms.as_ref().map(|time| &time.r#where),
            "tells_loss_ms" => return self.tells_loss_ms.as_ref().map(|time| &time.r#where),
            "survives" => &self.survives,
            "fences_writes_only" => &self.fences_writes_only,
            "reentrant" => &self.reentrant,
            "expires_after_work" => &self.expires_after_work,
            "checks_owner" => &self.checks_owner,
            "blind_release" => &self.blind_release,
            "looks_before_release" => &self.looks_before_release,
            "looks_before_wait" => &self.looks_before_wait,
            "ends_with_server" => &self.ends_with_server,
            _ => return None,
        };
        promise.as_ref().map(|promise| &promise.r#where)
    }
}

/// Returns the claims by the names that the protocol gives them.
fn spelled(claims: Claims) -> serde_json::Map<String, Value> {
    match serde_json::to_value(claims) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    }
}

/// Returns what the claim says. One that is absent, or no time, is not made.
fn value(claims: &serde_json::Map<String, Value>, name: &str) -> String {
    match claims.get(name) {
        None | Some(Value::Null) => "false".into(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Kind = Kind {
        hold: EndsWith::Session,
        renewed: false,
        stops_itself: false,
        fenced: false,
    };
    const LEASE: Kind = Kind {
        hold: EndsWith::Lease,
        ..SESSION
    };

    /// A claim that is added to the protocol must get a field here, or no manifest could make it.
    #[test]
    fn every_claim_of_the_protocol_can_be_made_and_is_quoted() {
        let all = Claims {
            fencing: true,
            keep_alive: true,
            fair: true,
            untimed: true,
            recovery_ms: Some(7),
            tells_loss_ms: Some(7),
            survives: true,
            fences_writes_only: true,
            reentrant: true,
            expires_after_work: true,
            checks_owner: true,
            blind_release: true,
            looks_before_release: true,
            looks_before_wait: true,
            session: true,
            ends_with_server: true,
        };
        let mut source = String::new();
        for (name, value) in spelled(all) {
            // Its kind says so.
            if name == "session" {
                continue;
            }
            source.push_str(&format!(
                "[{name}]\nwhere = {{ quote = \"so\", place = \"{name}.md\" }}\n"
            ));
            if value.is_number() {
                source.push_str("value = 7\n");
            }
        }
        let promises: Promises = toml::from_str(&source).unwrap();
        assert_eq!(promises.claims(SESSION), all);
        assert_eq!(promises.differences(SESSION, all), Vec::<String>::new());
        let differences = promises.differences(SESSION, Claims::PLAIN);
        assert_eq!(differences.len(), 15, "{differences:?}");
        for sentence in &differences {
            let (name, _) = sentence.split_once(':').unwrap();
            let said = format!("in the manifest (\"so\", {name}.md), false in init_ok");
            assert!(sentence.ends_with(&said), "{sentence}");
        }
        assert!(
            differences
                .iter()
                .any(|all| all.starts_with("recovery_ms: 7 "))
        );
    }

    #[test]
    fn a_claim_that_only_the_program_makes_is_a_difference_too() {
        assert_eq!(
            Promises::default().differences(LEASE, Claims::OWNED),
            ["checks_owner: false in the manifest, true in init_ok"]
        );
    }

    #[test]
    fn a_session_is_one_by_its_kind_and_the_program_need_not_repeat_it() {
        let nothing = Promises::default();
        assert!(nothing.claims(SESSION).session);
        assert!(!nothing.claims(LEASE).session);
        let said = Claims {
            session: true,
            ..Claims::PLAIN
        };
        for agrees in [said, Claims::PLAIN] {
            let differences = nothing.differences(SESSION, agrees);
            assert_eq!(differences, Vec::<String>::new());
        }
        assert_eq!(
            nothing.differences(LEASE, said),
            ["session: false in the manifest, true in init_ok"]
        );
    }
}
