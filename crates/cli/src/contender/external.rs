//! An external lock: a program of the user that speaks the lab's protocol, as in `--lock='python3 my_lock.py'`, or a folder that contains
//! such a program and its manifest.
//!
//! Before the trial, the lab starts it once with a temporary store and asks it for its claims. So it can report a missing or silent
//! program at once, and the claims are known before the first event.

use std::io;
use std::process::Command;
use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::gauntlet::{Kind, Limit};
use fencepost_trial::holds::{FIRST_LOCK, SECOND_LOCK};
use fencepost_trial::processes::{NoVerdict, claims_of};
use fencepost_trial::protocol::{Claims, PROTOCOL, Promise, Request, Resource};
use fencepost_trial::store::{TemporaryGround, TrialStore};
use fencepost_trial::strategy::{
    Buyer, Failure, Group, Opening, Origin, Remark, Setup, Stores, Strategy,
};
use fencepost_trial::text::shell_word;

use super::manifest::Manifest;
use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::no_verdict::{UsedFlags, explain};
use crate::values::BadValue;

/// How long the program may take to get ready; some languages start slowly.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A program of the user, and how to start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExternalLock {
    start: Start,
    /// The command or folder as the user typed it after `--lock=`.
    typed: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Start {
    /// A command, split into words.
    Command {
        program: String,
        arguments: Vec<String>,
    },
    /// A folder whose manifest says how.
    Folder(Box<Manifest>),
}

impl ExternalLock {
    /// Parses the folder or the command of an external lock. `None` if `text` could be the name of a strategy: a single word without
    /// a `/` that is no folder with a manifest.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, BadValue>> {
        let start = match Manifest::find(text) {
            Some(manifest) => manifest.map(Box::new).map(Start::Folder),
            None => Start::of_command(text)?,
        };
        let typed = shell_word(text);
        Some(start.map(|start| Self { start, typed }))
    }

    /// Returns the command that starts one process.
    pub(super) fn command(&self) -> Command {
        match &self.start {
            Start::Command { program, arguments } => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            Start::Folder(manifest) => manifest.command(),
        }
    }

    fn manifest(&self) -> Option<&Manifest> {
        match &self.start {
            Start::Command { .. } => None,
            Start::Folder(manifest) => Some(manifest),
        }
    }

    /// Returns the `--lock` flag that names this program.
    pub(crate) fn flag(&self) -> String {
        format!("--lock={}", self.typed)
    }

    /// Returns how the lock is built: as its manifest says, otherwise as its claims suggest.
    pub(crate) fn kind(&self, claims: Claims) -> Kind {
        self.manifest()
            .map_or_else(|| Kind::of_claims(claims), Manifest::kind)
    }

    /// Returns the limits that its documentation states, as far as its manifest quotes them.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        self.manifest()
            .map_or_else(Vec::new, |manifest| manifest.limits().to_vec())
    }

    /// Returns the store for a trial without `--store`, if the lock does not work on the usual one.
    pub(crate) fn default_store(&self) -> Option<TrialStore> {
        self.manifest()?.default_store()
    }

    /// Refuses a store on which the lock does not work, as far as its manifest says.
    pub(crate) fn fits(&self, store: &TrialStore) -> Result<(), CommandError> {
        match self.manifest() {
            Some(manifest) => manifest.fits(&self.flag(), store),
            None => Ok(()),
        }
    }

    /// Starts the program once, and returns the claims by which it is judged: those of its manifest, otherwise its own.
    pub(super) fn claims(
        &self,
        store: &TrialStore,
        ttl_ms: u64,
        resource: Resource,
        interrupt: Interrupt,
    ) -> Result<Claims, CommandError> {
        let said = self.rehearse(store, ttl_ms, resource, interrupt)?;
        let said = said.map_err(|no_verdict| self.not_ready(&no_verdict))?;
        match self.manifest() {
            Some(manifest) => manifest.claims(&self.flag(), said),
            None => Ok(said.unwrap_or_default()),
        }
    }

    /// Starts the program once, and returns what it says if it refuses to get ready for a purchase.
    pub(crate) fn cannot_buy(
        &self,
        store: &TrialStore,
        ttl_ms: u64,
        interrupt: Interrupt,
    ) -> Result<Option<String>, CommandError> {
        match self.rehearse(store, ttl_ms, Resource::Stock, interrupt)? {
            Err(NoVerdict::Refused { message, .. }) => Ok(Some(message)),
            Err(other) => Err(self.not_ready(&other)),
            Ok(_) => Ok(None),
        }
    }

    /// Starts the program, lets it get ready, and returns the claims that it states, if any.
    fn rehearse(
        &self,
        store: &TrialStore,
        ttl_ms: u64,
        resource: Resource,
        interrupt: Interrupt,
    ) -> Result<Result<Option<Claims>, NoVerdict>, CommandError> {
        let ground = TemporaryGround::prepare(store);
        let temporary = ground.map_err(|failure| explain(&failure.into(), UsedFlags::default()))?;
        let init = |_: &str| Request::Init {
            protocol: PROTOCOL,
            id: "rehearsal".into(),
            incarnation: 1,
            keys: vec![FIRST_LOCK.into(), SECOND_LOCK.into()],
            ttl_ms,
            endpoints: temporary.ground.endpoints_of_each_server(),
            resource,
            start: None,
        };
        Ok(claims_of(
            &|| self.command(),
            &init,
            START_TIMEOUT,
            interrupt,
        ))
    }

    fn not_ready(&self, no_verdict: &NoVerdict) -> CommandError {
        match (no_verdict, self.manifest()) {
            (NoVerdict::NotStarted { error, .. }, _) => self.cannot_start(error),
            (NoVerdict::Refused { message, .. }, _) => {
                CommandError::new(exit::SUBJECT, "the lock refused to get ready")
                    .at(format_args!("{}: {message}", self.flag()))
                    .effect("none: the trial had not begun")
            }
            // Something that the program needs may be missing.
            (NoVerdict::NotReady { .. }, Some(manifest)) => {
                explain(no_verdict, UsedFlags::default()).try_this(manifest.advice())
            }
            (other, _) => explain(other, UsedFlags::default()),
        }
    }

    /// Creates the strategy for this program. Strategies are `'static`, so it is leaked.
    pub(super) fn strategy(&self, claims: Claims) -> &'static Strategy {
        let title = self.manifest().map(Manifest::title);
        let title = title.unwrap_or_else(|| self.typed.clone());
        Box::leak(Box::new(Strategy {
            name: Box::leak(title.into_boxed_str()),
            origin: Origin::External {
                argument: Box::leak(self.typed.clone().into_boxed_str()),
            },
            group: Group::Locks,
            stores: Stores::All,
            summary: "somebody else's",
            gloss: "",
            flaw: None,
            promise: Promise::Exclusion,
            claims,
            has_line: false,
            remark: Remark::Nothing,
            open: not_here,
            lock: None,
        }))
    }

    fn cannot_start(&self, error: &io::Error) -> CommandError {
        let (program, advice) = match &self.start {
            Start::Command { program, .. } => (
                program.as_str(),
                "a program that answers on its standard output, as docs/lab.md describes".into(),
            ),
            Start::Folder(manifest) => (manifest.program(), manifest.advice()),
        };
        CommandError::new(exit::USAGE, format!("cannot start '{program}'"))
            .at(format_args!("{}: {}", self.flag(), system_words(error)))
            .effect("none: no process was started")
            .try_this(advice)
    }
}

impl Start {
    /// Parses a command: words with the quotes, backslashes and comments of a shell, but without expansions. Returns `None` if `text` is a
    /// single word without a `/`.
    fn of_command(text: &str) -> Option<Result<Self, BadValue>> {
        let Some(words) = shlex::split(text) else {
            return Some(Err(BadValue {
                what: "the command of the lock does not end: a quote is open, or it ends with a backslash"
                    .into(),
                advice: r#"close the quote; a quote that is meant as a letter is \' or \""#.into(),
            }));
        };
        let mut words = words.into_iter();
        let program = words.next()?;
        let arguments: Vec<String> = words.collect();
        let is_command = program.contains('/') || !arguments.is_empty();
        is_command.then_some(Ok(Self::Command { program, arguments }))
    }
}

/// Stands for the buyer of an external lock. Never called, since external locks buy in their own processes.
fn not_here(_: Setup) -> Opening<dyn Buyer> {
    let failure = Failure::definite("this lock lives in another program");
    Box::pin(async { Err(failure) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_as_by_a_shell() {
        for (text, expected) in [
            (
                "python3  my_lock.py ",
                &["python3", "my_lock.py"] as &[&str],
            ),
            (
                r#"sh -c 'echo "hi"; cat' "" a'b c'd"#,
                &["sh", "-c", r#"echo "hi"; cat"#, "", "ab cd"],
            ),
            (r"my\ lock it\'s 'a\b'", &["my lock", "it's", r"a\b"]),
            (
                r#"./lock "say \"hi\"" $HOME"#,
                &["./lock", r#"say "hi""#, "$HOME"],
            ),
            ("  ", &[]),
        ] {
            assert_eq!(shlex::split(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_command_that_does_not_end_is_refused() {
        for text in ["sh -c 'x", r#"sh -c "x"#, r"./lock \", "./it's"] {
            let refused = ExternalLock::parse(text).unwrap().unwrap_err();
            assert!(refused.what.contains("does not end"), "{text}: {refused:?}");
        }
    }

    #[test]
    fn a_name_is_no_command() {
        assert_eq!(ExternalLock::parse("safe"), None);
        assert_eq!(ExternalLock::parse(" sfae "), None);
        assert_eq!(ExternalLock::parse(""), None);
        let flag = |text| ExternalLock::parse(text).unwrap().unwrap().flag();
        assert_eq!(flag("./safe"), "--lock=./safe");
        assert_eq!(flag("sh -c 'x y'"), r"--lock='sh -c '\''x y'\'''");
    }
}
