//! The protocol between a supervisor and its warden: messages of nine bytes over a pair of sockets.

use std::io;

use fencepost::clock::Moment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const MESSAGE_BYTES: usize = 9;

/// A message from the supervisor to the warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    /// A new hold begins: forget until when the last one was valid.
    Prepare,
    /// Start the command with this fence.
    Start(i64),
    /// The lock is held until this moment, unless a later message extends it.
    ValidUntil(Moment),
    /// Pass this signal on to the command's group.
    Pass(i32),
    /// Stop the command and all it started, with this signal first. SIGKILL follows after the grace.
    Stop(i32),
    /// The lock is lost: kill everything at once.
    Kill,
}

/// A message from the warden to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The command runs and leads the process group with this id.
    Started(i32),
    /// The command could not be started; contains `errno`.
    NotStarted(i32),
    /// The terminal paused the command with this signal: Ctrl-Z, or because the command may not read or write the terminal now.
    Paused(i32),
    /// The command has ended, by itself or because it was told to; contains its raw wait status.
    Ended(i32),
    /// The lock ends soon; all processes were sent SIGTERM at this moment.
    Stopping(Moment),
    /// All processes were sent SIGKILL at this moment.
    Killing(Moment),
    /// No process of the command runs any more, since this moment.
    Gone(Moment),
}

/// A message that is encoded as a tag and a number.
pub(super) trait Message: Sized {
    fn parts(self) -> (u8, u64);
    fn from_parts(tag: u8, number: u64) -> Option<Self>;
}

impl Message for Instruction {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Prepare => (b'n', 0),
            Self::Start(fence) => (b's', fence.cast_unsigned()),
            Self::ValidUntil(moment) => (b'v', moment.as_nanos()),
            Self::Pass(signal) => (b'p', signal.cast_unsigned().into()),
            Self::Stop(signal) => (b't', signal.cast_unsigned().into()),
            Self::Kill => (b'k', 0),
        }
    }

    fn from_parts(tag: u8, number: u64) -> Option<Self> {
        Some(match tag {
            b'n' => Self::Prepare,
            b's' => Self::Start(number.cast_signed()),
            b'v' => Self::ValidUntil(Moment::from_nanos(number)),
            b'p' => Self::Pass(as_i32(number)),
            b't' => Self::Stop(as_i32(number)),
            b'k' => Self::Kill,
            _ => return None,
        })
    }
}

impl Message for Report {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Started(pid) => (b'r', pid.cast_unsigned().into()),
            Self::NotStarted(error) => (b'n', error.cast_unsigned().into()),
            Self::Paused(signal) => (b'z', signal.cast_unsigned().into()),
            Self::Ended(status) => (b'e', status.cast_unsigned().into()),
            Self::Stopping(at) => (b't', at.as_nanos()),
            Self::Killing(at) => (b'k', at.as_nanos()),
            Self::Gone(at) => (b'g', at.as_nanos()),
        }
    }

    fn from_parts(tag: u8, number: u64) -> Option<Self> {
        Some(match tag {
            b'r' => Self::Started(as_i32(number)),
            b'n' => Self::NotStarted(as_i32(number)),
            b'z' => Self::Paused(as_i32(number)),
            b'e' => Self::Ended(as_i32(number)),
            b't' => Self::Stopping(Moment::from_nanos(number)),
            b'k' => Self::Killing(Moment::from_nanos(number)),
            b'g' => Self::Gone(Moment::from_nanos(number)),
            _ => return None,
        })
    }
}

/// Returns the lower half of the number: an `i32` that was widened for sending.
fn as_i32(number: u64) -> i32 {
    number as u32 as i32
}

/// One end of the socket pair.
#[derive(Debug)]
pub(crate) struct WardenChannel {
    stream: UnixStream,
    /// The part of the next message that has arrived; kept here so that reading is cancel safe.
    partial: Vec<u8>,
}

impl WardenChannel {
    /// Needs a runtime.
    pub(super) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            partial: Vec::with_capacity(MESSAGE_BYTES),
        })
    }

    /// Sends a message. Ignores a closed connection, which [`WardenChannel::hear`] reports.
    pub(super) async fn say(&mut self, message: impl Message) {
        let (tag, number) = message.parts();
        let mut bytes = [tag; MESSAGE_BYTES];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        let _ = self.stream.write_all(&bytes).await;
    }

    /// Receives the next message. `None` if the other side is gone.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn receive<M: Message>(&mut self) -> Option<M> {
        while self.partial.len() < MESSAGE_BYTES {
            let mut bytes = [0; MESSAGE_BYTES];
            let room = MESSAGE_BYTES - self.partial.len();
            match self.stream.read(&mut bytes[..room]).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.partial.extend_from_slice(&bytes[..count]),
            }
        }
        let mut number = [0; 8];
        number.copy_from_slice(&self.partial[1..]);
        let tag = self.partial[0];
        self.partial.clear();
        M::from_parts(tag, u64::from_le_bytes(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_message_arrives_as_it_was_said() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut one, mut other) = (
            WardenChannel::new(one).unwrap(),
            WardenChannel::new(other).unwrap(),
        );
        let moment = Moment::from_nanos(u64::MAX - 1);
        let instructions = [
            Instruction::Prepare,
            Instruction::Start(-5),
            Instruction::ValidUntil(moment),
            Instruction::Pass(15),
            Instruction::Stop(15),
            Instruction::Kill,
        ];
        for instruction in instructions {
            one.say(instruction).await;
        }
        for instruction in instructions {
            assert_eq!(other.receive().await, Some(instruction));
        }
        let reports = [
            Report::Started(4121),
            Report::NotStarted(2),
            Report::Paused(20),
            Report::Ended(-1),
            Report::Stopping(moment),
            Report::Killing(moment),
            Report::Gone(moment),
        ];
        for report in reports {
            other.say(report).await;
        }
        drop(other);
        for report in reports {
            assert_eq!(one.receive().await, Some(report));
        }
        assert_eq!(one.receive::<Report>().await, None);
    }
}
