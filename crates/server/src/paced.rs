//! A connection whose client has to take what it is sent at some pace.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream to a client that takes all that is there, or [`Paced::LEAST`] bytes, within a time.
/// Otherwise writing fails. A client that takes a byte now and then would keep its answer in memory
/// for days.
pub struct Paced<S> {
    stream: S,
    limit: Duration,
    /// Since the client could not take all that was there.
    behind: Option<Behind>,
}

struct Behind {
    until: Pin<Box<Sleep>>,
    taken: usize,
}

impl<S> Paced<S> {
    /// Bytes that are taken within the limit.
    pub const LEAST: usize = 64 << 10;

    pub fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, behind: None }
    }

    /// What a write of this many bytes did.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        all: usize,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(taken)) => {
                let behind = self.behind.as_mut();
                let sum = behind.map_or(taken, |behind| {
                    behind.taken += taken;
                    behind.taken
                });
                if taken == all || sum >= Self::LEAST {
                    self.behind = None;
                }
                Poll::Ready(Ok(taken))
            }
            Poll::Pending => {
                let limit = self.limit;
                let behind = self
                    .behind
                    .get_or_insert_with(|| Behind { until: Box::pin(sleep(limit)), taken: 0 });
                match behind.until.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
            failed => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, bytes.len(), result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = parts.iter().map(|part| part.len()).sum();
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, all, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const LIMIT: Duration = Duration::from_millis(500);

    /// What becomes of an answer whose client takes this many bytes every 50 ms.
    async fn answered(each: usize) -> io::Result<()> {
        let (mut client, server) = duplex(1024);
        let mut server = Paced::new(server, LIMIT);
        let taking = tokio::spawn(async move {
            let mut buffer = vec![0; each];
            while client.read_exact(&mut buffer).await.is_ok() {
                sleep(Duration::from_millis(50)).await;
            }
        });
        let answer = vec![0; 4 * Paced::<()>::LEAST];
        let result = server.write_all(&answer).await;
        taking.abort();
        result
    }

    #[tokio::test]
    async fn who_takes_a_byte_now_and_then_is_sent_away() {
        assert_eq!(answered(1).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        answered(Paced::<()>::LEAST).await.unwrap();
    }
}
