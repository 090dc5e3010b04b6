//! Peers at a diagnostic socket that are no runtime, or a broken one: every call ends in time, with
//! the cause.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use diagnostics::{Error, EventPipeConfig, HResult, Port, Provider, ReversePort};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time-out that the calls below get.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Most that they may take: the time-out, and a busy machine.
const LIMIT: Duration = Duration::from_millis(1500);

/// A socket that does with each connection as told.
struct Peer {
    path: PathBuf,
    _folder: TempDir,
}

impl Peer {
    fn new(behave: impl Fn(UnixStream) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                behave(connection);
            }
        });
        Self { path, _folder: folder }
    }

    /// Answers whatever comes with these bytes, and closes.
    fn answering(bytes: Vec<u8>) -> Self {
        Self::new(move |mut connection| {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(&bytes);
        })
    }

    fn port(&self) -> Port {
        Port::new(&self.path, None).with_timeout(TIMEOUT)
    }
}

fn answer(id: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"DOTNET_IPC_V1\0".to_vec();
    bytes.extend((20 + payload.len() as u16).to_le_bytes());
    bytes.extend([0xff, id, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// Runs a call that must fail within the limit.
fn fails<T: std::fmt::Debug>(call: impl FnOnce() -> Result<T, Error>) -> Error {
    let start = Instant::now();
    let error = call().unwrap_err();
    assert!(start.elapsed() < LIMIT, "{:?} for {error}", start.elapsed());
    error
}

#[test]
fn nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let error = fails(|| Port::new(&path, None).process_info());
    assert!(error.to_string().contains("the process has ended"), "{error}");
    drop(UnixListener::bind(&path).unwrap());
    let error = fails(|| Port::new(&path, None).process_info());
    assert!(
        matches!(&error, Error::Connect { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused)
    );
    assert!(error.to_string().contains("has ended, or is ending"), "{error}");
}

#[test]
fn a_peer_that_says_nothing() {
    let peer = Peer::new(std::mem::forget);
    let port = peer.port();
    assert!(matches!(
        fails(|| port.process_info()),
        Error::Timeout { command: "ProcessInfo3", .. }
    ));
    assert!(matches!(fails(|| port.environment()), Error::Timeout { .. }));
    assert!(matches!(
        fails(|| port.attach_profiler([0; 16], "/x.so", b"", TIMEOUT)),
        Error::Timeout { .. }
    ));
    assert!(matches!(
        fails(|| port.collect(&EventPipeConfig::new(vec![Provider::gc()]))),
        Error::Timeout { .. }
    ));
    assert!(matches!(fails(|| port.resume_runtime()), Error::Timeout { .. }));
}

/// A runtime that collects garbage all the time begins a session late, and is not ill.
#[test]
fn a_session_may_begin_later_than_other_commands_are_answered() {
    let peer = Peer::new(|mut connection| {
        let _ = connection.read(&mut [0; 4096]);
        std::thread::sleep(Port::DEFAULT_TIMEOUT + TIMEOUT);
        let _ = connection.write_all(&answer(0, &7_u64.to_le_bytes()));
        // Nobody stops this session.
        std::mem::forget(connection);
    });
    Port::new(&peer.path, None).collect(&EventPipeConfig::new(vec![Provider::gc()])).unwrap();
}

#[test]
fn a_peer_that_never_accepts() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    // Its queue takes one connection; a further one waits for ever.
    let _queued = UnixStream::connect(&path).unwrap();
    let error = fails(|| Port::new(&path, None).with_timeout(TIMEOUT).process_info());
    assert!(
        matches!(&error, Error::Connect { source, .. } if source.kind() == std::io::ErrorKind::TimedOut)
    );
    assert!(
        error
            .to_string()
            .ends_with("(the process may be stopped, or busy with another diagnostic tool)"),
        "{error}"
    );
}

#[test]
fn a_peer_that_closes() {
    let peer = Peer::new(drop);
    assert!(matches!(fails(|| peer.port().process_info()), Error::Closed { .. }));
}

#[test]
fn a_peer_of_another_kind() {
    let error = fails(|| {
        Peer::answering(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).port().process_info()
    });
    assert!(
        error.to_string().contains("not one of a .NET runtime: it begins with `HTTP/1.1 400 B`"),
        "{error}"
    );
    let error = fails(|| Peer::answering(b"short".to_vec()).port().process_info());
    assert!(error.to_string().contains("it ends after 5 bytes"), "{error}");
    let error = fails(|| Peer::answering(vec![0xa5; 1 << 20]).port().process_info());
    assert!(matches!(error, Error::Garbage { .. }), "{error}");
}

#[test]
fn a_peer_that_drips() {
    let peer = Peer::new(|mut connection| {
        for byte in answer(0, &[0; 60_000]) {
            if connection.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(matches!(fails(|| peer.port().process_info()), Error::Timeout { .. }));
}

#[test]
fn lengths_that_lie() {
    // A text longer than the payload, a header shorter than itself, an environment of four
    // gigabytes.
    let mut text = vec![0; 24];
    text.extend(u32::MAX.to_le_bytes());
    assert!(matches!(
        fails(|| Peer::answering(answer(0, &text)).port().process_info()),
        Error::Garbage { .. }
    ));
    let mut header = answer(0, b"");
    header[14] = 3;
    assert!(matches!(
        fails(|| Peer::answering(header).port().process_info()),
        Error::Garbage { .. }
    ));
    let environment = answer(0, &[0xff, 0xff, 0xff, 0xff, 0, 0]);
    assert!(matches!(
        fails(|| Peer::answering(environment).port().environment()),
        Error::Garbage { .. }
    ));
    // A payload that is announced and does not come.
    let cut = answer(0, &[0; 100])[..60].to_vec();
    assert!(matches!(fails(|| Peer::answering(cut).port().process_info()), Error::Closed { .. }));
}

#[test]
fn refusals_say_why() {
    let refusal = |code: u32| Peer::answering(answer(0xff, &code.to_le_bytes()));
    let error =
        fails(|| refusal(0x8013_136a).port().attach_profiler([0; 16], "/x.so", b"", TIMEOUT));
    assert!(error.is_profiler_already_active());
    assert!(
        error.to_string().starts_with("AttachProfiler failed: another profiler is active"),
        "{error}"
    );
    // A failure may also come as an answer that is well.
    let peer = Peer::answering(answer(0, &0x8007_007eu32.to_le_bytes()));
    let error = fails(|| peer.port().attach_profiler([0; 16], "/x.so", b"", TIMEOUT));
    assert_eq!(error.hresult(), Some(HResult::MODULE_NOT_FOUND));
    // No form of the command is known.
    let error = fails(|| refusal(0x8013_1385).port().process_info());
    assert!(error.is_unknown_command());
    assert!(matches!(error, Error::Refused { command: "ProcessInfo", .. }));
}

#[test]
fn a_message_that_does_not_fit_is_not_sent() {
    let peer = Peer::new(|_| panic!("nothing may be sent"));
    let error = fails(|| peer.port().attach_profiler([0; 16], "/x.so", &[0; 70_000], TIMEOUT));
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn a_peer_of_another_process() {
    let peer = Peer::answering(answer(0, b""));
    // We listen ourselves, so process 1 does not.
    let port = Port::new(&peer.path, Some(1)).with_timeout(TIMEOUT);
    let error = fails(|| port.process_info());
    assert!(
        matches!(error, Error::WrongPeer { expected: 1, found, .. } if found == std::process::id()),
        "{error}"
    );
}

#[test]
fn a_socket_that_a_killed_runtime_left_makes_no_runtime_of_its_successor() {
    let folder = TempDir::new().unwrap();
    // The process that got the number of the killed one.
    let mut sleeper =
        std::process::Command::new("sleep").arg("60").env("TMPDIR", folder.path()).spawn().unwrap();
    let pid = sleeper.id();
    drop(
        UnixListener::bind(folder.path().join(format!("dotnet-diagnostic-{pid}-1-socket")))
            .unwrap(),
    );
    let begun = Instant::now();
    // It is another program until it is `sleep`.
    let named = |error: &Error| matches!(error, Error::NotDotnet { name, .. } if name == "sleep");
    while !diagnostics::find(&pid.to_string()).is_err_and(|error| named(&error)) {
        assert!(begun.elapsed() < LIMIT, "{:?}", diagnostics::find(&pid.to_string()));
    }
    assert!(diagnostics::discover().unwrap().iter().all(|process| process.pid != pid));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn long_paths_are_reached() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let short = folder.path().join("socket");
    let listener = UnixListener::bind(&short).unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(&answer(0, &0u32.to_le_bytes()));
        }
    });
    std::fs::rename(short, deep.join("socket")).unwrap();
    Port::new(&deep.join("socket"), None).resume_runtime().unwrap();
}

#[test]
fn a_reverse_port_passes_over_what_is_no_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reverse");
    let port = ReversePort::bind(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(port.environment_value(true), format!("{},suspend", path.display()));
    assert!(matches!(port.accept(TIMEOUT), Err(Error::Timeout { .. })));
    // Silence, garbage, and then a runtime.
    let _silent = UnixStream::connect(&path).unwrap();
    UnixStream::connect(&path)
        .unwrap()
        .write_all(b"GET / HTTP/1.1\r\n\r\nxxxxxxxxxxxxxxxxxxxxx")
        .unwrap();
    let mut runtime = UnixStream::connect(&path).unwrap();
    runtime
        .write_all(&[&b"ADVR_V1\0"[..], &[9; 16], &4711u64.to_le_bytes(), &[0; 2]].concat())
        .unwrap();
    let connected = port.accept(Duration::from_secs(10)).unwrap();
    assert_eq!((connected.pid, connected.cookie), (4711, [9; 16]));
    let answering = std::thread::spawn(move || {
        let mut command = [0; 20];
        runtime.read_exact(&mut command).unwrap();
        runtime.write_all(&answer(0, &0u32.to_le_bytes())).unwrap();
        command
    });
    connected.port.resume_runtime().unwrap();
    assert_eq!(answering.join().unwrap()[16..18], [0x04, 0x01]);
    // It does not connect again.
    assert!(matches!(
        fails(|| connected.port.with_timeout(TIMEOUT).resume_runtime()),
        Error::Connect { .. }
    ));
    drop(port);
    assert!(!path.exists());
    assert!(fails(|| connected.port.resume_runtime()).to_string().contains("(reverse)"));
}
