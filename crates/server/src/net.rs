//! Connections: how many, and how long they may take.

use crate::{
    Shared, Tls,
    access::Peer,
    paced::Paced,
    strangers::{Stranger, Strangers},
};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use std::{io, net::TcpListener, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};

/// Connections at the same time; further ones wait until one ends.
const MOST_CONNECTIONS: usize = 512;

/// How long a client may take to send the head of a request, and a connection to be idle.
const HEAD: Duration = Duration::from_secs(15);

/// How long a client may take for 64 kB of a response, or for what there is of it.
const WRITE: Duration = Duration::from_secs(30);

/// Bytes of the head of a request.
const MOST_HEAD: usize = 32 << 10;

/// Lines of the head of a request.
const MOST_HEADERS: usize = 64;

/// How long responses may take when the server ends.
const LAST: Duration = Duration::from_secs(2);

/// Threads for work that blocks: all that may run at the same time, and reading files.
const BLOCKING: usize = 24;

/// Answers requests until `stopped` says so and the recordings have ended.
pub fn run(
    listener: TcpListener,
    router: Router,
    state: Shared,
    tls: Option<Tls>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING)
        .thread_name("server")
        .enable_io()
        .enable_time()
        .build()?;
    let ended = runtime.block_on(serve(listener, router, &state, tls, stopped));
    // Work of requests that have ended is left behind.
    runtime.shutdown_background();
    ended
}

async fn serve(
    listener: TcpListener,
    router: Router,
    state: &Shared,
    tls: Option<Tls>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let (connections, strangers) = (GracefulShutdown::new(), Strangers::default());
    loop {
        let turn = Arc::clone(&room).acquire_owned();
        let accepted = async { (turn.await, listener.accept().await) };
        let (turn, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match (turn, accepted) {
            (Ok(turn), Ok((stream, peer))) => {
                // A connection that is gone already has no address.
                let Ok(own) = stream.local_addr() else { continue };
                let stranger = strangers.add();
                let router = router.clone().layer(Extension(Peer { address: peer, own }));
                let router = router.layer(Extension(Arc::clone(&stranger)));
                connect(stream, turn, router, stranger, connections.watcher(), tls.clone());
            }
            // There are no descriptors left, for example: connections that end free some.
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    drop(listener);
    state.recordings.stop_all();
    state.recordings.ended().await;
    // Whoever is still not ready has had the time.
    let _ = timeout(LAST, connections.shutdown()).await;
    Ok(())
}

fn connect(
    stream: TcpStream,
    turn: OwnedSemaphorePermit,
    router: Router,
    stranger: Arc<Stranger>,
    watcher: Watcher,
    tls: Option<Tls>,
) {
    // Events are small and should not wait for each other. If this fails, they do.
    let _ = stream.set_nodelay(true);
    tokio::spawn(async move {
        let _turn = turn;
        tokio::select! {
            () = speak(stream, router, watcher, tls) => {}
            () = stranger.leave() => {}
        }
    });
}

/// Answers a connection, by TLS if there is a certificate.
async fn speak(stream: TcpStream, router: Router, watcher: Watcher, tls: Option<Tls>) {
    let Some(tls) = tls else { return answer(Paced::new(stream, WRITE), router, watcher).await };
    // Whoever is silent, or does not speak TLS, has no connection.
    match timeout(HEAD, is_encrypted(&stream)).await {
        Ok(true) => {}
        Ok(false) => return refuse(stream).await,
        Err(_) => return,
    }
    if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(Paced::new(stream, WRITE))).await {
        answer(stream, router, watcher).await;
    }
}

/// Whether a connection begins as TLS does: with a handshake.
async fn is_encrypted(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first == [22]
}

/// Says to who does not speak TLS what is wrong.
async fn refuse(mut stream: TcpStream) {
    const TEXT: &str = "This server speaks HTTPS: the address begins with https://\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{TEXT}",
        TEXT.len()
    );
    let _ = timeout(LAST, stream.write_all(answer.as_bytes())).await;
}

/// Answers the requests of a connection.
async fn answer<S>(stream: S, router: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // A client that went away, or sent no HTTP, cannot be sent an error.
    let _ = watcher.watch(connection).await;
}
