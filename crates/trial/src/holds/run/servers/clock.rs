//! A Redis server whose clock jumps by an hour, while everybody else's stays right.

use std::time::{Duration, Instant, SystemTime};

use fencepost_rig::resp::Value;
use fencepost_rig::{ClockShim, ProgramClock, Proxy, Redis, WallClock};

use super::redis::{ANSWER_TIMEOUT, SERVER, ask, crash, private};
use super::{Seen, Servers, Watched, now, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;

/// How far the clock jumps.
const HOUR: Duration = Duration::from_secs(3_600);
/// How often the lab asks the server for its time.
const LOOK: Duration = Duration::from_millis(1);

/// In which direction a clock jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jump {
    Forward,
    Back,
}

impl Jump {
    fn wall(self) -> WallClock {
        match self {
            Self::Forward => WallClock::Ahead(HOUR),
            Self::Back => WallClock::Behind(HOUR),
        }
    }

    fn change(self) -> Change {
        match self {
            Self::Forward => Change::ClockAhead,
            Self::Back => Change::ClockBehind,
        }
    }
}

/// One server with a clock of its own.
pub(super) struct Clocked {
    front: Proxy,
    server: Redis,
    jump: Jump,
    // Declared after the server, which asks them for the time.
    clock: ProgramClock,
    _shim: ClockShim,
}

impl Clocked {
    /// Starts the server. Its clock is right at first.
    pub(super) fn start(jump: Jump) -> Result<Self, Failure> {
        let shim = ClockShim::compile().map_err(Failure::definite)?;
        let clock = shim.clock().map_err(Failure::definite)?;
        let server = Redis::builder().clock(&clock);
        let server = server.start().map_err(Failure::definite)?;
        let front = Proxy::start(server.address()).map_err(Failure::definite)?;
        Ok(Self {
            front,
            server,
            jump,
            clock,
            _shim: shim,
        })
    }

    /// Returns the server's own time, in seconds.
    fn time(&self) -> Result<i64, Failure> {
        let answer = ask(&self.server, &["TIME"])?;
        let seconds = match &answer {
            Value::List(parts) => parts.first(),
            _ => None,
        };
        match seconds {
            Some(Value::Text(seconds)) => seconds.parse().map_err(Failure::definite),
            _ => Err(Failure::definite(format!(
                "TIME is answered with {answer:?}"
            ))),
        }
    }

    /// Waits until the server says that its clock has jumped. Returns `false` if it does not.
    fn has_jumped(&self, before: i64) -> Result<bool, Failure> {
        let half = i64::try_from(HOUR.as_secs() / 2).unwrap_or(i64::MAX);
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while Instant::now() < deadline {
            let by = self.time()?.saturating_sub(before);
            match self.jump {
                Jump::Forward if by > half => return Ok(true),
                Jump::Back if by < -half => return Ok(true),
                _ => std::thread::sleep(LOOK),
            }
        }
        Ok(false)
    }
}

impl Servers for Clocked {
    fn store(&self) -> TrialStore {
        private(&self.front)
    }

    fn misbehave(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        // A server that keeps nothing of the lock shows nothing about it.
        if ask(&self.server, &["DBSIZE"])? == Value::Number(0) {
            return Ok(Vec::new());
        }
        let before = self.time()?;
        // Taken before: from here on, leases may end at the wrong time.
        let at = Instant::now();
        self.clock
            .set(self.jump.wall())
            .map_err(Failure::definite)?;
        if !self.has_jumped(before)? {
            return Ok(Vec::new());
        }
        let jumped = seen(at, SERVER, self.jump.change());
        let inspected = watched.on(SERVER, &self.server.url())?;
        Ok([jumped].into_iter().chain(inspected).collect())
    }

    fn last_look(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let inspected = match self.jump {
            Jump::Forward => None,
            Jump::Back => watched.on(SERVER, &self.server.url())?,
        };
        Ok(inspected.into_iter().collect())
    }
}

/// One server that dies, and comes back without its data and with a clock that is an hour behind.
pub(super) struct Behind(Clocked);

impl Behind {
    /// Starts the server. Its clock is right at first.
    pub(super) fn start() -> Result<Self, Failure> {
        Ok(Self(Clocked::start(Jump::Back)?))
    }
}

impl Servers for Behind {
    fn store(&self) -> TrialStore {
        self.0.store()
    }

    fn kill(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let inspected = watched.on(SERVER, &self.0.server.url())?;
        let killed = crash(&mut self.0.server, SERVER)?;
        Ok(inspected.into_iter().chain([killed]).collect())
    }

    fn serve_again(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let right = i64::try_from(wall.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
        self.0
            .clock
            .set(self.0.jump.wall())
            .map_err(Failure::definite)?;
        self.0.server.restart().map_err(Failure::definite)?;
        let at = Instant::now();
        let behind = self.0.has_jumped(right)?;
        let behind = behind.then(|| seen(at, SERVER, Change::ClockBehind));
        let restarted = now(SERVER, Change::RestartedEmpty);
        let inspected = watched.on(SERVER, &self.0.server.url())?;
        let all = behind.into_iter().chain([restarted]).chain(inspected);
        Ok(all.collect())
    }
}
