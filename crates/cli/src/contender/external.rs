//! An external lock: a program of the user that speaks the lab's protocol, as in `--lock='python3 my_lock.py'`.
//!
//! Before the trial, the lab starts it once with a temporary store and asks it for its claims. So it can report a missing or silent
//! program at once, and the claims are known before the first event.

use std::io;
use std::process::Command;
use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::holds::{FIRST, SECOND};
use fencepost_trial::processes::{Stopped, claims_of};
use fencepost_trial::protocol::{Claims, Promise, Request, Resource};
use fencepost_trial::store::{TemporaryGround, TrialStore};
use fencepost_trial::strategy::{Buyer, Failure, Group, Opening, Remark, Setup, Stores, Strategy};
use fencepost_trial::text::shell_word;

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::stopped::{UsedFlags, explain};

/// How long the program may take to get ready; some languages start slowly.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command that starts the program, split into words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExternalLock {
    program: String,
    arguments: Vec<String>,
    /// The command as the user typed it after `--lock=`.
    typed: String,
}

impl ExternalLock {
    /// Parses the command of an external lock. `None` if `text` could be the name of a strategy: a single word without a `/`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = words(text).into_iter();
        let program = words.next()?;
        let arguments: Vec<String> = words.collect();
        let is_command = program.contains('/') || !arguments.is_empty();
        is_command.then(|| Self {
            program,
            arguments,
            typed: shell_word(text),
        })
    }

    /// Starts one process.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }

    /// The `--lock` flag that names this program.
    pub(crate) fn flag(&self) -> String {
        format!("--lock={}", self.typed)
    }

    /// Starts the program once and asks for its claims.
    pub(super) fn claims(
        &self,
        store: &TrialStore,
        ttl_ms: u64,
        resource: Resource,
        interrupt: Interrupt,
    ) -> Result<Claims, CommandError> {
        let ground = TemporaryGround::prepare(store);
        let temporary = ground.map_err(|failure| explain(&failure.into(), UsedFlags::default()))?;
        let init = |_: &str| Request::Init {
            id: "rehearsal".into(),
            keys: vec![FIRST.into(), SECOND.into()],
            ttl_ms,
            endpoints: temporary.ground.endpoints(),
            resource,
            start: None,
        };
        claims_of(&|| self.command(), &init, PATIENCE, interrupt).map_err(
            |stopped| match &stopped {
                Stopped::NotStarted { error, .. } => self.cannot_start(error),
                other => explain(other, UsedFlags::default()),
            },
        )
    }

    /// The strategy for this program. Strategies are `'static`, so it is leaked.
    pub(super) fn strategy(&self, claims: Claims) -> &'static Strategy {
        Box::leak(Box::new(Strategy {
            name: Box::leak(self.typed.clone().into_boxed_str()),
            group: Group::Locks,
            stores: Stores::KeepingStock,
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
        let what = format!("cannot start '{}'", self.program);
        CommandError::new(exit::USAGE, what)
            .at(format_args!("{}: {}", self.flag(), system_words(error)))
            .effect("none: no process was started")
            .try_this("a program that answers on its standard output, as docs/lab.md describes")
    }
}

/// The buyer of an external lock. Never used, since external locks buy in their own processes.
fn not_here(_: Setup) -> Opening<dyn Buyer> {
    let failure = Failure::definite("this lock lives in another program");
    Box::pin(async { Err(failure) })
}

/// Splits a command into words with the quoting rules of a shell, but without expansions.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    let mut in_word = false;
    for letter in text.chars() {
        match quote {
            None if letter.is_whitespace() => in_word = false,
            Some(open) if letter == open => quote = None,
            None | Some(_) => {
                if !std::mem::replace(&mut in_word, true) {
                    words.push(String::new());
                }
                match (quote, letter, words.last_mut()) {
                    (None, '\'' | '"', _) => quote = Some(letter),
                    (_, _, Some(word)) => word.push(letter),
                    _ => {}
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_as_by_a_shell() {
        assert_eq!(words("python3  my_lock.py "), ["python3", "my_lock.py"]);
        assert_eq!(
            words(r#"sh -c 'echo "hi"; cat' "" a'b c'd"#),
            ["sh", "-c", r#"echo "hi"; cat"#, "", "ab cd"]
        );
        assert!(words("  ").is_empty());
    }

    #[test]
    fn a_name_is_no_command() {
        assert_eq!(ExternalLock::parse("safe"), None);
        assert_eq!(ExternalLock::parse(" sfae "), None);
        assert_eq!(ExternalLock::parse(""), None);
        assert_eq!(
            ExternalLock::parse("./safe").unwrap().flag(),
            "--lock=./safe"
        );
        assert_eq!(
            ExternalLock::parse("sh -c 'x y'").unwrap().flag(),
            r"--lock='sh -c '\''x y'\'''"
        );
    }
}
