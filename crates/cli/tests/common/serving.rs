//! `clrscope serve`, and a browser that uses it.

use super::{LIMIT, assistant::Said, clrscope};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStdout, Stdio},
    time::{Duration, Instant},
};
use testkit::{Answer, Client, JsonSchema};

/// A server, and a browser that was let in.
pub struct Serving {
    pub child: Child,
    pub out: BufReader<ChildStdout>,
    pub client: Client,
    pub cookie: String,
}

impl Serving {
    #[track_caller]
    pub fn start(sessions: &Path) -> Self {
        Self::start_with(sessions, &[])
    }

    #[track_caller]
    pub fn start_with(sessions: &Path, more: &[&str]) -> Self {
        let mut command = clrscope(["serve", "--sessions", sessions.to_str().unwrap()]);
        command.args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        out.read_line(&mut url).unwrap();
        let client = Client::of(&url);
        let path = url.trim_end().split_once(&client.address.to_string()).unwrap().1;
        assert!(path.starts_with("/?token="), "{url}");
        let answer = client.send("GET", path, &[], b"").expect(303);
        let cookie = answer.headers["set-cookie"].split(';').next().unwrap().to_owned();
        Self { child, out, client, cookie }
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let origin = format!("http://{}", self.client.address);
        let headers = [
            ("Cookie", self.cookie.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/json"),
        ];
        self.client.send(method, &format!("/api/v1/{path}"), &headers, body.as_bytes())
    }

    /// Uploads a file as a session of this name.
    pub fn upload(&self, name: &str, file: &[u8]) -> Answer {
        let origin = format!("http://{}", self.client.address);
        let headers = [
            ("Cookie", self.cookie.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/octet-stream"),
        ];
        self.client.send("POST", &format!("/api/v1/sessions?name={name}"), &headers, file)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    pub fn schema(&self, name: &str) -> JsonSchema {
        JsonSchema::of_openapi(self.get("openapi.json").json(), name).unwrap()
    }

    /// Begins a recording; its name.
    #[track_caller]
    pub fn record(&self, body: &str) -> String {
        let recording = self.ask("POST", "recordings", body).expect(201).json();
        self.schema("Recording").check(&recording).unwrap();
        recording["id"].as_str().unwrap().to_owned()
    }

    /// The events of a recording to its end: their names and data.
    #[track_caller]
    pub fn events(&self, id: &str) -> Vec<(String, Value)> {
        let answer = self.get(&format!("recordings/{id}/events")).expect(200);
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        let text = answer.text();
        let field = |event: &str, name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
        };
        let events = text.split("\n\n").filter_map(|event| {
            let (name, data) = (field(event, "event: ")?, field(event, "data: ")?);
            Some((name, serde_json::from_str(&data).unwrap()))
        });
        events.collect()
    }

    /// Asks the assistant's tools; the result.
    #[track_caller]
    pub fn assistant(&self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let origin = format!("http://{}", self.client.address);
        let headers = [
            ("Cookie", self.cookie.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2025-06-18"),
        ];
        let body = request.to_string();
        let answer = self.client.send("POST", "/mcp", &headers, body.as_bytes()).expect(200);
        answer.json()["result"].clone()
    }

    #[track_caller]
    pub fn tool(&self, name: &str, arguments: Value) -> Said {
        let result = self.assistant("tools/call", json!({"name": name, "arguments": arguments}));
        Said::of(&result, result.to_string().len())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Exit code, the rest of standard output, and standard error.
    pub fn wait(mut self) -> (Option<i32>, String, String) {
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (status.code(), out, err)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
