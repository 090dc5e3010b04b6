//! The assistant on standard input and output, one message of JSON-RPC on a line.

use crate::Assistant;
use rmcp::{
    ServiceExt as _,
    service::ServerInitializeError,
    transport::{
        async_rw::AsyncRwTransport,
        io::{StdioReader, stdio_pipes},
    },
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
    time::timeout,
};

/// Bytes of a message of the client; longer ones are dropped.
const MOST_LINE: usize = 1 << 20;

/// How long recordings may take to end when the client is gone or a signal came.
const ENDING: Duration = Duration::from_secs(30);

/// How long answers may take to be written then.
const LAST: Duration = Duration::from_secs(3);

/// Threads for work that blocks.
const BLOCKING: usize = 16;

/// Why the assistant cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system refused threads or the like.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
    /// The client did not begin as clients of the protocol do.
    #[error(
        "the client did not speak the Model Context Protocol: {0}; `clrscope mcp` is started by an \
         assistant, see docs/assistants.md"
    )]
    Protocol(String),
}

/// Ends [`serve`] from another thread: recordings end in order, and then it does.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Default for Stopper {
    fn default() -> Self {
        Self(watch::channel(false).0)
    }
}

impl Stopper {
    /// Asks it to end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    async fn stopped(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Answers the client on standard input and output until it closes standard input, or `stopper`
/// ends it. Recordings end in order first, and leave nothing in the observed processes.
///
/// # Errors
/// [`ServeError`].
pub fn serve(assistant: &Assistant, stopper: &Stopper) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING)
        .thread_name("mcp")
        .enable_io()
        .enable_time()
        .build()?;
    let ended = runtime.block_on(answer(assistant, stopper));
    // A read of standard input cannot be cancelled where it is no pipe.
    runtime.shutdown_background();
    ended
}

async fn answer(assistant: &Assistant, stopper: &Stopper) -> Result<(), ServeError> {
    let work = &assistant.shared.work;
    let (input, output) = stdio_pipes();
    // A client that closes its end wants an end; what runs in processes ends before all else.
    let closed = Stopper::default();
    let input = UntilClosed { input, closed: closed.clone() };
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MOST_LINE);
    let begun = tokio::select! {
        begun = assistant.clone().serve(transport) => begun,
        () = stopper.stopped() => return Ok(()),
    };
    let mut service = match begun {
        Ok(service) => service,
        // The client went away before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Protocol(error.to_string())),
    };
    tokio::select! {
        () = closed.stopped() => {}
        () = stopper.stopped() => {}
    }
    work.stop_all();
    // The agent detaches by itself from a recording that does not end.
    let _ = timeout(ENDING, work.ended()).await;
    // Calls that have been ended still have answers, which a client may read that has only closed
    // its own end.
    let _ = timeout(LAST, assistant.idle()).await;
    let _ = service.close_with_timeout(LAST).await;
    Ok(())
}

/// Standard input, and who wants to know that it was closed.
struct UntilClosed {
    input: StdioReader,
    closed: Stopper,
}

impl AsyncRead for UntilClosed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0) {
            self.closed.stop();
        }
        Poll::Ready(read)
    }
}
