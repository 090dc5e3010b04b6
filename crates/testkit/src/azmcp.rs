//! The real ASP.NET application that stands in where no program of ours can run.

use crate::process::{Launch, TargetProcess};
use crate::runtime::{Host, Runtime};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// What one request may take, also while a profiler attaches and other tests run.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

impl TargetProcess {
    /// `azmcp server start` on .NET 10 ([`Runtime::V10`]) or .NET 9 ([`Runtime::Azmcp9`]): a server
    /// of the Model Context Protocol that talks JSON-RPC over its standard streams. Call
    /// [`TargetProcess::feed`] to make it work.
    ///
    /// # Panics
    /// When the runtime is missing or is another one, or the application cannot be started.
    #[track_caller]
    pub fn azmcp(runtime: Runtime) -> TargetProcess {
        TargetProcess::azmcp_launch(runtime).start()
    }

    /// The same, ready to be adapted and started.
    ///
    /// # Panics
    /// When the runtime is missing or is another one.
    #[track_caller]
    pub fn azmcp_launch(runtime: Runtime) -> Launch {
        let Host::App { app } = runtime.require().host() else {
            panic!("azmcp runs on .NET 10 and on its own .NET 9, not on {runtime}");
        };
        Launch::new(app).args(["server", "start"]).env("AZURE_MCP_COLLECT_TELEMETRY", "false")
    }

    /// Asks `azmcp` for something, after a handshake when there was none. Gives the result, and the
    /// time from when the request was there until the whole answer was.
    ///
    /// # Errors
    /// When the application ends, does not answer within a minute, or answers with an error.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Result<(Value, Duration)> {
        if self.is_fresh() {
            let parameters = json!({
                "protocolVersion": "2024-11-05",
                "capabilities": {},
                "clientInfo": { "name": "testkit", "version": "1" },
            });
            let (answer, _) = self.request("initialize", &parameters, REQUEST_LIMIT)?;
            ensure!(answer["serverInfo"].is_object(), "unexpected answer to initialize: {answer}");
            self.send_line(
                &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
            )?;
        }
        self.request(method, parameters, REQUEST_LIMIT)
    }

    /// Makes `azmcp` work: asks `rounds` times for the list of its tools, and gives the number of
    /// bytes of the last answer.
    ///
    /// # Errors
    /// As [`TargetProcess::ask`].
    pub fn feed(&mut self, rounds: u32) -> Result<usize> {
        let mut bytes = 0;
        for _ in 0..rounds {
            let (answer, _) = self.ask("tools/list", &json!({}))?;
            ensure!(answer["tools"].is_array(), "unexpected answer to tools/list: {answer}");
            bytes = answer.to_string().len();
        }
        Ok(bytes)
    }
}
