//! The minimum that an async program needs to use SQLite: one thread that owns the connection, a channel, and oneshot answers.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

use crate::statements::Statements;

/// The thread; dropping this ends it.
pub(crate) struct Worker {
    requests: Sender<Request>,
}

struct Request {
    operation: Operation,
    name: String,
    owner: usize,
    reply: oneshot::Sender<()>,
}

#[derive(Clone, Copy)]
enum Operation {
    Acquire,
    Release,
}

impl Worker {
    pub(crate) fn start(statements: Statements) -> Self {
        let (requests, queue) = channel();
        std::thread::spawn(move || serve(&statements, &queue));
        Self { requests }
    }

    pub(crate) async fn acquire(&self, name: &str, owner: usize) {
        self.request(Operation::Acquire, name, owner).await;
    }

    pub(crate) async fn release(&self, name: &str, owner: usize) {
        self.request(Operation::Release, name, owner).await;
    }

    async fn request(&self, operation: Operation, name: &str, owner: usize) {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            operation,
            name: name.to_owned(),
            owner,
            reply,
        };
        assert!(self.requests.send(request).is_ok(), "the thread lives");
        answer.await.expect("the thread lives");
    }
}

fn serve(statements: &Statements, queue: &Receiver<Request>) {
    for request in queue {
        match request.operation {
            Operation::Acquire => statements.acquire(&request.name, request.owner),
            Operation::Release => statements.release(&request.name, request.owner),
        }
        assert!(request.reply.send(()).is_ok(), "somebody listens");
    }
}
