//! An external lock: a program of the user that speaks the lab's protocol, as in `--lock='python3 my_lock.py'`.
//!
//! Before the trial, the lab starts it once with a temporary store and asks it for its claims. So it can report a missing or silent
//! program at once, and the claims are known before the first event.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use fencepost_rig::{Child, Feed, Interrupt, Output, Silence, feed, folder};
use fencepost_trial::holds::{FIRST, SECOND};
use fencepost_trial::processes::Stopped;
use fencepost_trial::protocol::{Claims, Promise, Reply, Request, Resource};
use fencepost_trial::store::TrialStore;
use fencepost_trial::strategy::{Buyer, Failure, Group, Opening, Remark, Setup, Stores, Strategy};

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::stopped::explain;

/// How long the program may take to get ready; some languages start slowly.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the program may take to exit.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often the lab checks for an interrupt while it waits for a line.
const LOOK_UP: Duration = Duration::from_millis(50);
/// How much of an invalid line is quoted, in characters.
const QUOTE_CHARS: usize = 120;

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
            typed: quoted(text),
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
        let no_folder = |error| Stopped::Store(format!("no temporary folder: {error}"));
        let told = |stopped| explain(&stopped, None);
        let folder = folder().map_err(|error| told(no_folder(error)))?;
        let ground = store.ground(folder.path());
        ground.prepare().map_err(|error| told(error.into()))?;
        let (feed, ears) = feed();
        let child = Child::spawn(self.command(), 0, &ears);
        let mut child = child.map_err(|error| self.cannot_start(&error))?;
        // If writing fails, the program has exited or closed its input; what it says next tells which.
        let _ = child.send(&Request::Init {
            id: "rehearsal".into(),
            keys: vec![FIRST.into(), SECOND.into()],
            ttl_ms,
            endpoints: ground.endpoints(),
            resource,
            start: None,
        });
        let claims = listen(&feed, &mut child, interrupt).map_err(told)?;
        let _ = child.send(&Request::Shutdown);
        child.wait(FAREWELL);
        // If the server is gone, there is nothing to clean up.
        let _ = ground.clear();
        Ok(claims)
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

/// Waits until the program is ready, and returns its claims.
fn listen(feed: &Feed, child: &mut Child, interrupt: Interrupt) -> Result<Claims, Stopped> {
    let deadline = Instant::now() + PATIENCE;
    let said = loop {
        if let Some(signal) = interrupt.requested() {
            let progress = "no process was asked anything yet".into();
            return Err(Stopped::Interrupted {
                signal,
                progress,
                stopped: 1,
                events: 0,
            });
        }
        match feed.next(LOOK_UP) {
            Ok(heard) => break Some(heard.output),
            Err(Silence::TimedOut) if Instant::now() < deadline => {}
            Err(_) => break None,
        }
    };
    let what = match said {
        None => "did not answer init; does it flush its output after each line?".into(),
        Some(Output::Closed) => format!("{} before it was ready", ending(child.wait(FAREWELL))),
        Some(Output::Line(line)) => match serde_json::from_str(&line) {
            Ok(Reply::InitOk { claims }) => return Ok(claims),
            Ok(Reply::Error { message, .. }) => return Err(Stopped::Store(message)),
            Ok(_) => format!("answered before it was asked: {}", quote(&line)),
            Err(error) => format!("sent an invalid message ({error}): {}", quote(&line)),
        },
    };
    Err(Stopped::NotReady {
        who: "the subject".into(),
        what,
        last_words: child.last_words(),
    })
}

fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("ended with {code}"),
        Some((None, Some(signal))) => format!("was killed by signal {signal}"),
        _ => "closed its output".into(),
    }
}

/// Quotes a line of the program, shortened and without control characters.
fn quote(line: &str) -> String {
    let start = line.chars().take(QUOTE_CHARS);
    format!(
        "'{}'",
        start.flat_map(char::escape_debug).collect::<String>()
    )
}

/// Splits a command into words with the quoting rules of a shell, but without expansions.
fn words(text: &str) -> Vec<String> {
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

/// Quotes the text as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_./=:@%+,-".contains(letter);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
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
