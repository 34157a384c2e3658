//! A store of your own, outside this crate: locks in a folder, for the processes of one machine.
//!
//! `adding-a-store.md` in the repository's docs folder walks through this file. Run as a program, it can be put on trial:
//! `fencepost crash --lock=target/debug/examples/your_store`
//!
//! # How it works
//! The store has three files. A process locks `flock` (with `flock(2)`) while it executes a request. `held-BOOT.json` contains who holds
//! what and until when, since the boot with this identity. `fence` contains the last epoch. Changes are written to a new file that then
//! replaces the old one, so a process that is killed at any point leaves either the old or the new file.
//!
//! **Leases** are measured with the time since the machine was booted, which all its processes share and nobody can set. After a reboot,
//! everything that was held before is free.
//!
//! **The fence** is one counter for all names. It is on disk before a lock is granted, and is never deleted.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends.
//! - *A process is stopped in the middle of a request.* The others get no answer until it continues.
//! - *The folder is deleted.* Fences start from the beginning: resources that have seen larger ones refuse the new holders.
//! - *The folder is on a network file system.* Do not do that: other machines have other clocks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use fencepost::backend::{
    Backend, Capabilities, Holder, Listed, Record, Release, Renewal, name_matches,
};
use fencepost::clock::{BootClock, BoxFuture, Clock, Moment};
use fencepost::{Claim, Effect, Error, ErrorKind, Grant, LockName, Operation, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

#[path = "your_store/on_trial.rs"]
mod on_trial;

#[tokio::main]
async fn main() {
    on_trial::answer_the_lab().await;
}

/// The name of this store in errors, spans and metrics.
const STORE: &str = "folder";

/// Locks in a folder.
///
/// A separate thread executes the requests, one after the other: they block, and the requests of one owner must not overtake each other,
/// even if nobody waits for their answers any more.
#[derive(Debug)]
pub struct Folder {
    requests: Sender<Request>,
}

type Request = Box<dyn FnOnce(&Files) + Send>;

impl Folder {
    /// What this store promises. It has no line, so it promises no order among waiters.
    pub const CAPABILITIES: Capabilities = Capabilities::new().across_processes(true).leases(true);

    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unusable`] if that is not possible.
    pub fn open(path: &Path) -> Result<Self> {
        let files = Files::open(path).map_err(|error| failure(Operation::Open, error))?;
        let (requests, received) = channel::<Request>();
        // The thread ends when the store is dropped.
        std::thread::spawn(move || received.into_iter().for_each(|request| request(&files)));
        Ok(Self { requests })
    }

    async fn ask<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl FnOnce(&Files) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let request = move |files: &Files| {
            let _nobody_waits = answer.send(work(files));
        };
        let _thread_is_gone = self.requests.send(Box::new(request));
        match answered.await {
            Ok(answer) => answer.map_err(|error| failure(operation, error)),
            Err(_) => Err(Error::new(
                ErrorKind::Internal,
                STORE,
                operation,
                "the store's thread has ended",
            )
            // It may have ended after the request was carried out.
            .with_effect(Effect::Maybe)),
        }
    }
}

/// The error of a request. It may have taken effect, and says so: the locker then releases what may have been acquired.
fn failure(operation: Operation, error: io::Error) -> Error {
    let message = "the folder cannot be read or written";
    let error = Error::new(ErrorKind::Unusable, STORE, operation, message).with_source(error);
    error.with_effect(Effect::Maybe)
}

impl Backend for Folder {
    fn store_name(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            // Read the clock before the request is sent: validity counts from here.
            let asked_at = BootClock.now();
            let (claim, ttl) = (claim.clone(), claim.ttl);
            let epoch = self.ask(Operation::Acquire, move |files| files.take(&claim));
            Ok(epoch.await?.map(|epoch| Grant::new(epoch, asked_at, ttl)))
        })
    }

    // The default `acquire` tries again and again.

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let all = claims.to_vec();
            let renewed = self.ask(Operation::Renew, move |files| files.renew(&all));
            match renewed.await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        let claim = claim.clone();
        Box::pin(self.ask(Operation::Release, move |files| files.give_back(&claim)))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(async move {
            let held = self.ask(Operation::Inspect, |files| files.look()).await?;
            Ok(held.get(name.as_str()).map(Held::record))
        })
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(async move {
            let held = self.ask(Operation::Inspect, |files| files.look()).await?;
            let wanted = held
                .iter()
                .filter(|(name, _)| pattern.is_none_or(|pattern| name_matches(pattern, name)));
            Ok(wanted
                .map(|(name, held)| Listed::new(name, held.record()))
                .collect())
        })
    }
}

/// One lock that is held, as the file contains it.
#[derive(Serialize, Deserialize)]
struct Held {
    owner: String,
    label: String,
    epoch: u64,
    since_ns: u64,
    until_ns: u64,
    ttl_ms: u64,
}

impl Held {
    /// Extends the lease, and never shortens it.
    fn extend(&mut self, claim: &Claim, now: Moment) {
        self.until_ns = self.until_ns.max((now + claim.ttl).as_nanos());
        self.ttl_ms = u64::try_from(claim.ttl.as_millis()).unwrap_or(u64::MAX);
    }

    fn is_of(&self, claim: &Claim) -> bool {
        self.owner == claim.owner.to_string()
    }

    fn record(&self) -> Record {
        let mut holder = Holder::new(self.label.as_str());
        holder.owner = self.owner.parse().ok();
        holder.epoch = Some(self.epoch);
        holder.since = Some(Moment::from_nanos(self.since_ns));
        holder.ttl_left =
            Some(Moment::from_nanos(self.until_ns).saturating_duration_since(BootClock.now()));
        holder.ttl = Some(Duration::from_millis(self.ttl_ms));
        Record::new(Some(holder), Vec::new())
    }
}

type AllHeld = BTreeMap<String, Held>;

/// The files of a folder. One process at a time reads and writes them.
struct Files {
    folder: PathBuf,
    flock: File,
    /// The identity of this boot. Leases of another boot are over, because its clock began at another time.
    boot: String,
}

impl Files {
    fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut options = File::options();
        let options = options.create(true).truncate(false).write(true);
        Ok(Self {
            folder: folder.to_owned(),
            flock: options.open(folder.join("flock"))?,
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
        })
    }

    /// Returns the epoch of the lease, if the lock is free or this owner already has it.
    fn take(&self, claim: &Claim) -> io::Result<Option<u64>> {
        self.change(|held, now| {
            if let Some(lease) = held.get_mut(claim.name.as_str()) {
                if !lease.is_of(claim) {
                    return Ok(None);
                }
                lease.extend(claim, now);
                return Ok(Some(lease.epoch));
            }
            let epoch = self.next_epoch()?;
            let mut lease = Held {
                owner: claim.owner.to_string(),
                label: claim.label.to_string(),
                epoch,
                since_ns: now.as_nanos(),
                until_ns: 0,
                ttl_ms: 0,
            };
            lease.extend(claim, now);
            held.insert(claim.name.to_string(), lease);
            Ok(Some(epoch))
        })
    }

    fn renew(&self, claims: &[Claim]) -> io::Result<Vec<Renewal>> {
        self.change(|held, now| {
            let renew = |claim: &Claim| match held.get_mut(claim.name.as_str()) {
                Some(lease) if lease.is_of(claim) => {
                    lease.extend(claim, now);
                    Renewal::Extended
                }
                _ => Renewal::Lost,
            };
            Ok(claims.iter().map(renew).collect())
        })
    }

    fn give_back(&self, claim: &Claim) -> io::Result<Release> {
        self.change(|held, _| {
            let name = claim.name.as_str();
            if held.get(name).is_some_and(|lease| lease.is_of(claim)) {
                held.remove(name);
                Ok(Release::Freed)
            } else {
                Ok(Release::NotHeld)
            }
        })
    }

    fn look(&self) -> io::Result<AllHeld> {
        self.flock.lock_shared()?;
        let held = self.held(BootClock.now());
        self.flock.unlock()?;
        held
    }

    /// Reads who holds what, lets `change` change it, and writes it back, while all other processes wait.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut AllHeld, Moment) -> io::Result<T>,
    ) -> io::Result<T> {
        self.flock.lock()?;
        // Read the clock after waiting for the others: a lease lasts at least its TTL from here.
        let now = BootClock.now();
        let changed = self.held(now).and_then(|mut held| {
            let answer = change(&mut held, now)?;
            let text = serde_json::to_string(&held)?;
            self.replace(&self.held_file(), &text, false)?;
            Ok(answer)
        });
        self.flock.unlock()?;
        changed
    }

    /// Returns what is held, without the leases that have ended.
    fn held(&self, now: Moment) -> io::Result<AllHeld> {
        let Some(text) = self.read(&self.held_file())? else {
            return Ok(AllHeld::new());
        };
        let mut held: AllHeld = serde_json::from_str(&text)?;
        held.retain(|_, lease| now.as_nanos() < lease.until_ns);
        Ok(held)
    }

    /// The file of this boot. It is not forced to disk: a power cut ends its leases, too, and the next boot has another file.
    fn held_file(&self) -> String {
        format!("held-{}.json", self.boot)
    }

    fn next_epoch(&self) -> io::Result<u64> {
        let last: u64 = match self.read("fence")? {
            Some(text) => text.trim().parse().map_err(io::Error::other)?,
            None => 0,
        };
        self.replace("fence", &(last + 1).to_string(), true)?;
        Ok(last + 1)
    }

    fn read(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.folder.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces a file. If `durably`, the new content survives a power cut.
    fn replace(&self, name: &str, text: &str, durably: bool) -> io::Result<()> {
        let new = self.folder.join(format!("{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        if durably {
            file.sync_all()?;
        }
        fs::rename(new, self.folder.join(name))?;
        if durably {
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(())
    }
}
