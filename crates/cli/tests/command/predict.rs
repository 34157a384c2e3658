//! Tests of `gauntlet --predict`, which asks in a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;

use crate::interrupt::{send, until};
use crate::{fencepost, run};

/// A program in a terminal.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    fn start(arguments: &str) -> Self {
        let size = Winsize {
            ws_row: 40,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).unwrap();
        let slave = File::from(pty.slave);
        let mut command = fencepost(arguments);
        command
            .env("TERM", "xterm")
            .stdin(Stdio::from(slave.try_clone().unwrap()))
            .stdout(Stdio::from(slave.try_clone().unwrap()))
            .stderr(Stdio::from(slave));
        let child = command.spawn().unwrap();
        // The command still has its ends of the terminal, which would never close.
        drop(command);
        let keyboard = File::from(pty.master);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut shown, text) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the program has ended.
            while let Ok(read @ 1..) = shown.read(&mut bytes) {
                let part = String::from_utf8_lossy(&bytes[..read]);
                text.lock().unwrap().push_str(&part);
            }
        });
        Self {
            child,
            keyboard,
            screen,
            reader,
        }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until the program has asked this often.
    fn wait_for_question(&self, number: usize) {
        until("it asks", || {
            self.text().matches("  predict   ").count() >= number
        });
    }

    fn answer(&mut self, line: &str) {
        self.keyboard
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap();
        self.reader.join().unwrap();
        let text = self.screen.lock().unwrap().clone();
        (code, text)
    }
}

#[test]
fn predictions_are_asked_for_first_and_compared_with_what_came() {
    let mut terminal = Terminal::start(
        "gauntlet --predict --color never --seed 7 --scenario crash --scenario pause --scenario deadlock-sorted",
    );
    terminal.wait_for_question(1);
    let text = terminal.text();
    assert!(
        text.contains("deadlock-sorted  two locks, same order"),
        "{text}"
    );
    assert!(text.contains("both finish, one after the other"), "{text}");
    assert!(!text.contains("\nHELD"), "{text}");
    terminal.answer("perhaps");
    terminal.wait_for_question(2);
    terminal.answer("h");
    terminal.wait_for_question(3);
    terminal.answer("Broken");
    terminal.wait_for_question(4);
    terminal.answer("b");
    let (code, text) = terminal.end();
    assert_eq!(code, 1, "{text}");
    for words in [
        "a verdict: held, broken, stuck or inconclusive; Enter for none",
        "predicted HELD, correct",
        "predicted BROKEN, but it was HELD",
        "predicted BROKEN, correct",
        "predicted 2 of 3 came as predicted",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn without_a_terminal_nobody_can_be_asked() {
    let ran = run("gauntlet --predict --scenario crash");
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
    for words in [
        "error: cannot ask for predictions\n",
        "  where     --predict: standard input is not a terminal\n",
        "  effect    none: no process was started\n",
    ] {
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn ctrl_c_ends_the_questions() {
    let terminal = Terminal::start("gauntlet --predict --scenario crash");
    terminal.wait_for_question(1);
    send(&terminal.child, Signal::SIGINT);
    let (code, text) = terminal.end();
    assert_eq!(code, 130, "{text}");
    assert!(text.contains("interrupted:"), "{text}");
    assert!(text.contains(" no trial had begun."), "{text}");
}
