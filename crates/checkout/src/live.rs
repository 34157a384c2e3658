//! The data of the live page, computed once for all watchers.
//!
//! Each topic has one *frame*, and a new frame replaces the previous one. So a slow watcher misses frames but no state, nothing queues up,
//! and an open page needs memory for one frame of each topic only. Nothing is computed while nobody watches.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

mod recent_events;
mod recount;
mod sampler;
mod trials;

pub use sampler::run;
pub use trials::{Lab, NotStarted, Offer, Progress, Trials};

/// The topic of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// The locks that are held or wanted.
    Locks,
    /// Figures, products, orders, losses and refusals.
    Activity,
    /// The trial that runs, or ran last.
    Trial,
}

impl Topic {
    const ALL: [Self; 3] = [Self::Locks, Self::Activity, Self::Trial];

    /// Returns the name of the topic in the stream.
    pub fn name(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Activity => "activity",
            Self::Trial => "trial",
        }
    }
}

/// A frame: one line of JSON, or empty if there is no frame yet.
#[derive(Debug, Clone, Default)]
struct Frame {
    number: u64,
    text: Arc<str>,
}

/// The newest frame of each topic.
#[derive(Debug, Clone, Default)]
pub struct Frames([Frame; 3]);

/// Which frames a watcher has seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct SeenFrames([u64; 3]);

impl Frames {
    /// Returns the frames that are new to this watcher, and marks them as seen.
    pub fn unseen(&self, seen: &mut SeenFrames) -> Vec<(Topic, Arc<str>)> {
        let mut news = Vec::new();
        for topic in Topic::ALL {
            let (frame, seen) = (&self.0[topic as usize], &mut seen.0[topic as usize]);
            if frame.number != *seen {
                *seen = frame.number;
                news.push((topic, Arc::clone(&frame.text)));
            }
        }
        news
    }
}

/// The place where frames are published. Cheap to clone.
#[derive(Debug, Clone)]
struct LatestFrames(watch::Sender<Frames>);

impl LatestFrames {
    fn put(&self, topic: Topic, text: String) {
        self.0.send_if_modified(|frames| {
            let frame = &mut frames.0[topic as usize];
            let is_new = *frame.text != *text;
            if is_new {
                frame.number += 1;
                frame.text = text.into();
            }
            is_new
        });
    }

    /// Removes frames from an earlier time of watching, since they may be out of date.
    fn clear_stale_frames(&self) {
        self.0.send_if_modified(|frames| {
            for topic in [Topic::Locks, Topic::Activity] {
                frames.0[topic as usize] = Frame::default();
            }
            false
        });
    }

    fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// The parts of the live page: frames, watchers and trials. Cheap to clone.
#[derive(Clone)]
pub struct Live {
    latest_frames: LatestFrames,
    watcher_arrived: Arc<Notify>,
    trials: Trials,
}

impl Default for Live {
    fn default() -> Self {
        let latest_frames = LatestFrames(watch::Sender::default());
        Self {
            trials: Trials::new(latest_frames.clone()),
            watcher_arrived: Arc::default(),
            latest_frames,
        }
    }
}

impl Live {
    /// Subscribes to frames.
    pub fn watch(&self) -> watch::Receiver<Frames> {
        if !self.latest_frames.is_watched() {
            self.latest_frames.clear_stale_frames();
        }
        let frames = self.latest_frames.0.subscribe();
        self.watcher_arrived.notify_one();
        frames
    }

    /// Returns the trials that users of the page start.
    pub fn trials(&self) -> &Trials {
        &self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_seen_once_and_the_newest_wins() {
        let live = Live::default();
        let frames = live.watch();
        let mut seen = SeenFrames::default();
        let first = frames.borrow().unseen(&mut seen);
        assert_eq!(first.len(), 1, "what the lab offers: {first:?}");
        for text in ["1", "2", "2"] {
            live.latest_frames.put(Topic::Activity, text.into());
        }
        let news = frames.borrow().unseen(&mut seen);
        assert_eq!(news, [(Topic::Activity, Arc::from("2"))]);
        assert_eq!(frames.borrow().unseen(&mut seen), []);
    }

    #[test]
    fn nobody_is_shown_what_an_earlier_visitor_saw() {
        let live = Live::default();
        let first = live.watch();
        live.latest_frames.put(Topic::Activity, "before".into());
        let second = live.watch();
        let mut seen = SeenFrames::default();
        let shown = second.borrow().unseen(&mut seen);
        let activity = (Topic::Activity, Arc::from("before"));
        assert!(
            shown.contains(&activity),
            "it is kept up to date: {shown:?}"
        );
        drop((first, second));
        let later = live.watch();
        let mut seen = SeenFrames::default();
        let shown = later.borrow().unseen(&mut seen);
        let topics: Vec<Topic> = shown.into_iter().map(|(topic, _)| topic).collect();
        assert_eq!(topics, [Topic::Trial], "only what does not grow old");
        live.latest_frames.put(Topic::Activity, "before".into());
        let shown = later.borrow().unseen(&mut seen);
        assert_eq!(shown, [activity], "seen again, it is news");
    }
}
