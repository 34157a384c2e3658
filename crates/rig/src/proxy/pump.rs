//! Forwards one direction of one proxied connection, with the faults that are set.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Amount, Direction, Fate, Faults, ReplyFate, Shared, lock};
use crate::frames::Frames;
use crate::wire::Conversation;

mod stand_in;

const READ_BYTES: usize = 64 * 1024;
/// How many bytes are buffered before reading stops; then the sender's socket fills up, as on a slow network.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Signals that the connection must be closed.
pub(super) struct Cut;

/// One direction of one connection.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) shared: &'a Shared,
    pub(super) direction: Direction,
    /// The number of the connection.
    pub(super) number: u64,
    /// How often all connections had been closed when this one began.
    pub(super) cuts: u64,
    /// Whether the server was asked something on this connection since it last sent something.
    pub(super) is_asked: &'a AtomicBool,
    /// What passes in both directions, if the protocol is known.
    pub(super) conversation: Option<&'a Mutex<Conversation>>,
}

/// Forwards what comes from `source` until it ends.
pub(super) async fn pump(
    way: Way<'_>,
    mut source: OwnedReadHalf,
    sink: OwnedWriteHalf,
) -> Result<(), Cut> {
    let Way {
        shared,
        direction,
        number,
        cuts,
        is_asked,
        conversation,
    } = way;
    let mut faults = shared.faults.subscribe();
    let mut road = Road {
        shared,
        direction,
        is_asked,
        conversation,
        sink: Some(sink),
        frames: Frames::default(),
        read: Frames::default(),
        message: Vec::new(),
        late: Vec::new(),
        ended: false,
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        is_held: false,
        is_in_transaction: None,
        heals: faults.borrow().heals,
    };
    let mut buffer = vec![0; READ_BYTES];
    let (mut reading, mut untold) = (true, false);
    // If the end of the stream was swallowed, the connection to the receiver stays open.
    while reading || untold || road.has_more() {
        tokio::select! {
            biased;
            _ = faults.changed() => road.notice(&mut faults),
            () = until(road.due_late()), if road.can_hand_on_late() => road.hand_on_late().await?,
            () = until(road.due()), if !road.waiting.is_empty() => road.hand_on_next().await?,
            read = source.read(&mut buffer), if reading && road.waiting_bytes < WAITING_BYTES_MAX => {
                // If the sender died, the connection is closed, too; how exactly makes no difference here.
                let length = read.unwrap_or(0);
                reading = length > 0;
                let mut now = faults.borrow().clone();
                if number < now.buried {
                    now.swallow = [true; 2];
                }
                if now.cuts != cuts {
                    return Err(Cut);
                }
                untold = !reading && now.swallow[direction as usize];
                if let Err(cut) = road.take(&buffer[..length], &now) {
                    road.hand_on_what_is_due().await?;
                    return Err(cut);
                }
            }
            // The end of a stream must not overtake data that was sent before it.
            () = std::future::ready(()), if road.ended && road.late.is_empty() => road.tell_end(),
        }
    }
    Ok(())
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Data in transit. An empty piece is the end of the stream.
struct Piece {
    /// When the piece is due; `None` if it waits until the proxy is healed.
    due: Option<Instant>,
    bytes: Vec<u8>,
    /// The error that stands in for the reply to this command.
    stand_in: Option<&'static str>,
}

impl Piece {
    fn of(bytes: Vec<u8>, due: Option<Instant>) -> Self {
        Self {
            due,
            bytes,
            stand_in: None,
        }
    }
}

struct Road<'a> {
    shared: &'a Shared,
    direction: Direction,
    is_asked: &'a AtomicBool,
    conversation: Option<&'a Mutex<Conversation>>,
    /// `None` if the receiver is gone; then everything is read and discarded.
    sink: Option<OwnedWriteHalf>,
    frames: Frames,
    /// Follows what is read; the other one follows what is forwarded.
    read: Frames,
    /// The start of a message, which is judged when it is complete.
    message: Vec<u8>,
    /// Complete messages that others may overtake.
    late: Vec<Piece>,
    /// The sender has closed the connection; the receiver is told after the delayed messages.
    ended: bool,
    waiting: VecDeque<Piece>,
    waiting_bytes: usize,
    /// Everything waits until the proxy is healed, because of a reply that is held back.
    is_held: bool,
    /// Whether a transaction of Redis is open, if that was seen since commands are judged.
    is_in_transaction: Option<bool>,
    heals: u64,
}

impl Road<'_> {
    fn due(&self) -> Option<Instant> {
        self.waiting.front().and_then(|piece| piece.due)
    }

    fn notice(&mut self, faults: &mut watch::Receiver<Faults>) {
        let heals = faults.borrow_and_update().heals;
        if std::mem::replace(&mut self.heals, heals) != heals {
            self.is_held = false;
            let now = Some(Instant::now());
            let all = self.waiting.iter_mut().chain(&mut self.late);
            all.for_each(|piece| piece.due = now);
        }
    }

    fn has_more(&self) -> bool {
        self.ended || !self.waiting.is_empty() || !self.late.is_empty()
    }

    fn tell_end(&mut self) {
        self.ended = false;
        self.waiting
            .push_back(Piece::of(Vec::new(), Some(Instant::now())));
    }

    fn due_late(&self) -> Option<Instant> {
        self.late.iter().filter_map(|piece| piece.due).min()
    }

    /// Returns whether this is possible now: only between two messages.
    fn can_hand_on_late(&self) -> bool {
        self.frames.is_between() && self.due_late().is_some()
    }

    async fn hand_on_late(&mut self) -> Result<(), Cut> {
        let due = self.due_late();
        let Some(at) = self.late.iter().position(|piece| piece.due == due) else {
            return Ok(());
        };
        let piece = self.late.remove(at);
        self.hand_on(piece).await
    }

    /// Handles what was read, reply by reply if the protocol is known.
    fn take(&mut self, bytes: &[u8], faults: &Faults) -> Result<(), Cut> {
        if bytes.is_empty() && !self.late.is_empty() {
            self.ended = true;
            return Ok(());
        }
        if self.direction == Direction::ToServer || bytes.is_empty() {
            return self.take_messages(bytes, faults);
        }
        if self.is_asked.swap(false, Ordering::AcqRel) {
            self.shared.replies.fetch_add(1, Ordering::Relaxed);
            if self.conversation.is_none() {
                self.judge_reply()?;
            }
        }
        let replaced = self.replaced(bytes);
        let mut rest = replaced.as_deref().unwrap_or(bytes);
        while let Some(conversation) = self.conversation {
            let answered = lock(conversation).answered(rest);
            let Some(length) = answered else {
                break;
            };
            let (before, reply) = rest.split_at(length);
            self.take_messages(before, faults)?;
            self.shared.steps.fetch_add(1, Ordering::Relaxed);
            self.judge_reply()?;
            rest = reply;
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.take_messages(rest, faults)
    }

    /// Handles a part of what was read, message by message if there is a judge.
    fn take_messages(&mut self, bytes: &[u8], faults: &Faults) -> Result<(), Cut> {
        let judge = self.shared.judge(self.direction).clone();
        let commands = self.command_judge();
        if commands.is_none() {
            // Commands pass unseen, so only the conversation knows about transactions.
            self.is_in_transaction = None;
        }
        if bytes.is_empty() || judge.is_none() && commands.is_none() {
            let mut begun = std::mem::take(&mut self.message);
            self.read.follow(bytes, u64::MAX);
            begun.extend_from_slice(bytes);
            self.take_piece(&begun, faults);
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            // A message that began to pass without a judge passes completely.
            let passes = !self.read.is_between() && self.message.is_empty();
            let (length, ended) = self.read.follow(rest, 1);
            let (piece, later) = rest.split_at(length);
            rest = later;
            if passes {
                self.take_piece(piece, faults);
                continue;
            }
            self.message.extend_from_slice(piece);
            if ended == 1 {
                let message = std::mem::take(&mut self.message);
                let stand_in = commands.as_ref().and_then(|it| self.judged(&message, it));
                if let Some(stand_in) = stand_in {
                    self.replace(&message, stand_in, faults);
                    continue;
                }
                let fate = judge.as_ref().map_or(Fate::Pass, |judge| judge(&message));
                self.carry_out(fate, message, faults)?;
            }
        }
        Ok(())
    }

    /// Holds back the reply that begins here, or closes the connection, if the judge says so.
    fn judge_reply(&mut self) -> Result<(), Cut> {
        let judge = self.shared.reply_judge().clone();
        match judge.map_or(ReplyFate::Pass, |judge| judge()) {
            ReplyFate::Pass => {}
            ReplyFate::Hold => self.is_held = true,
            ReplyFate::Cut => return Err(Cut),
        }
        Ok(())
    }

    fn carry_out(&mut self, fate: Fate, message: Vec<u8>, faults: &Faults) -> Result<(), Cut> {
        match fate {
            Fate::Pass => self.take_piece(&message, faults),
            Fate::Twice => {
                self.take_piece(&message, faults);
                self.take_piece(&message, faults);
            }
            Fate::Lose => self.swallow(&message),
            Fate::Late(by) => {
                let due = Instant::now().checked_add(by);
                self.late.push(Piece::of(message, due));
            }
            Fate::Cut => return Err(Cut),
        }
        Ok(())
    }

    fn swallow(&self, bytes: &[u8]) {
        let tally = &self.shared.tallies[self.direction as usize];
        tally
            .swallowed
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }

    fn take_piece(&mut self, bytes: &[u8], faults: &Faults) {
        if faults.swallow[self.direction as usize] {
            self.swallow(bytes);
            return;
        }
        let delay = faults.delay[self.direction as usize];
        let due = match delay {
            _ if self.is_held => None,
            Duration::ZERO => Some(Instant::now()),
            delay => Instant::now().checked_add(delay),
        };
        // If the proxy was healed in between, keep the order: nothing may overtake a piece that is due later.
        let earlier = self.waiting.back().map(|piece| piece.due);
        let due = match earlier {
            Some(None) => None,
            Some(Some(earlier)) => due.map(|due| due.max(earlier)),
            None => due,
        };
        self.waiting_bytes += bytes.len();
        self.waiting.push_back(Piece::of(bytes.to_vec(), due));
    }

    async fn hand_on_next(&mut self) -> Result<(), Cut> {
        let Some(piece) = self.waiting.pop_front() else {
            return Ok(());
        };
        self.waiting_bytes -= piece.bytes.len();
        self.hand_on(piece).await
    }

    /// Forwards what came before a message that closes the connection, except what is delayed or held back. Otherwise it would depend on the
    /// sender's timing, which messages come in one piece, whether they are lost too.
    async fn hand_on_what_is_due(&mut self) -> Result<(), Cut> {
        while self.due().is_some_and(|due| due <= Instant::now()) {
            self.hand_on_next().await?;
        }
        Ok(())
    }

    async fn hand_on(&mut self, piece: Piece) -> Result<(), Cut> {
        let bytes = &piece.bytes;
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        if bytes.is_empty() {
            let _ = sink.shutdown().await;
            return Ok(());
        }
        let (passing, messages, cut) = pass(self.shared, self.direction, &mut self.frames, bytes);
        if self.direction == Direction::ToServer {
            // Before writing, because the answer may come at once.
            self.is_asked.store(true, Ordering::Release);
            if let Some(conversation) = self.conversation {
                let mut conversation = lock(conversation);
                conversation.asked(&bytes[..passing]);
                if let Some(error) = piece.stand_in {
                    conversation.stand_in(error);
                }
            }
        } else if passing > 0 {
            let mut first = lock(&self.shared.first_delivery);
            first.get_or_insert_with(std::time::Instant::now);
        }
        let tally = &self.shared.tallies[self.direction as usize];
        // Count before writing, so that a receiver finds what it received in the counts.
        tally.bytes.fetch_add(passing as u64, Ordering::Relaxed);
        tally.messages.fetch_add(messages, Ordering::Relaxed);
        if sink.write_all(&bytes[..passing]).await.is_err() {
            tally.bytes.fetch_sub(passing as u64, Ordering::Relaxed);
            tally.messages.fetch_sub(messages, Ordering::Relaxed);
            // The receiver is gone. The other direction of this connection notices and tells the sender.
            self.sink = None;
        }
        if cut { Err(Cut) } else { Ok(()) }
    }
}

/// Returns how many of these bytes pass, how many messages end in them, and whether that was the last.
fn pass(
    shared: &Shared,
    direction: Direction,
    frames: &mut Frames,
    bytes: &[u8],
) -> (usize, u64, bool) {
    let mut allowance = shared.allowance(direction);
    let (passing, messages, left) = match *allowance {
        None => {
            let (passing, messages) = frames.follow(bytes, u64::MAX);
            return (passing, messages, false);
        }
        Some(Amount::Bytes(left)) => {
            let most = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (passing, messages) = frames.follow(&bytes[..most], u64::MAX);
            let left = left - passing as u64;
            (passing, messages, Amount::Bytes(left))
        }
        Some(Amount::Messages(left)) => {
            let (passing, messages) = frames.follow(bytes, left);
            (passing, messages, Amount::Messages(left - messages))
        }
    };
    let used_up = matches!(left, Amount::Bytes(0) | Amount::Messages(0));
    *allowance = (!used_up).then_some(left);
    (passing, messages, used_up)
}
