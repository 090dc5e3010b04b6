//! A client for HTTP that sends exactly what a test says.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where the server is.
    pub address: SocketAddr,
}

impl Client {
    /// Of the server that has printed this address.
    ///
    /// # Panics
    /// If it is none.
    pub fn of(url: &str) -> Self {
        let rest = url.strip_prefix("http://").expect("an address of HTTP");
        let (address, _) = rest.split_once('/').expect("an address with a path");
        Self { address: address.parse().expect("an address with a port") }
    }

    /// Sends a request with these headers, and Host where they do not name one, and reads the
    /// answer to its end.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        self.raw(&[head.as_bytes(), b"\r\n", body].concat())
    }

    /// Sends these bytes, and reads the answer to its end.
    #[track_caller]
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a large body does not read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::read(&answer)
    }

    /// A connection to the server.
    ///
    /// # Panics
    /// If there is none.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }
}

/// What a server answers.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// By names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads all of an answer.
    #[track_caller]
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_lowercase(), value.trim().to_owned())
        });
        let headers: BTreeMap<_, _> = headers.collect();
        let body = &bytes[end + 4..];
        let chunked = headers.get("transfer-encoding").is_some_and(|how| how == "chunked");
        let body = if chunked { joined(body) } else { body.to_vec() };
        Self { status, headers, body }
    }

    /// Its body as text.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Its body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// Asserts the status, and shows the answer when it is another one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Asserts an error that says a cause with this in it and a next step.
    #[track_caller]
    pub fn expect_problem(self, status: u16, part: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.headers["content-type"], "application/json");
        let problem = answer.json();
        let cause = problem["cause"].as_str().unwrap();
        assert!(cause.contains(part), "`{part}` is not in: {cause}");
        assert!(!problem["next"].as_str().unwrap().is_empty());
        assert_eq!(problem.as_object().unwrap().len(), 2, "{problem}");
        answer
    }
}

/// A body that came in parts.
fn joined(mut parts: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = parts.windows(2).position(|end| end == b"\r\n") {
        let length = std::str::from_utf8(&parts[..end]).unwrap_or_default();
        let length = usize::from_str_radix(length, 16).expect("the length of a part");
        let from = end + 2;
        body.extend_from_slice(&parts[from..from + length]);
        parts = &parts[from + length + 2..];
    }
    body
}
