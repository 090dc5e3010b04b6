use super::*;
use crate::configuration::Files;

const CORE: Process<'_> = Process {
    runtime: Runtime::Core,
    path: "/usr/bin/dotnet",
    parent_path: ".",
    command_line: "/usr/bin/dotnet /app/App.dll ",
};
const FRAMEWORK: Process<'_> = Process {
    runtime: Runtime::Framework,
    path: "C:\\App\\App.exe",
    parent_path: ".",
    command_line: "App.exe",
};

/// A decision by configuration and environment.
struct Case<'a> {
    global: &'a str,
    local: Option<&'a str>,
    application: Option<&'a str>,
    platform: Platform,
    variables: &'a [(&'a str, &'a str)],
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            global: "<configuration/>",
            local: None,
            application: None,
            platform: Platform::Unix,
            variables: &[],
        }
    }
}

impl Case<'_> {
    fn decide(&self, process: Process<'_>) -> Decision {
        let environment = Environment::new(self.platform, self.variables.iter().copied());
        let files = Files {
            global: self.global.as_bytes(),
            local: self.local.map(str::as_bytes),
            application: self.application.map(str::as_bytes),
        };
        let configuration = Configuration::read(files, &environment).unwrap();
        decide(process, &configuration, &environment)
    }

    fn instruments(&self, process: Process<'_>) -> bool {
        self.decide(process).instrument
    }
}

fn windows<'a>(variables: &'a [(&'a str, &'a str)]) -> Case<'a> {
    Case { platform: Platform::Windows, variables, ..Case::default() }
}

#[test]
fn force_wins_over_everything() {
    let excluded = "<configuration agentEnabled='false'><instrumentation><applications>\
                    <application name='dotnet' \
                    include='false'/></applications></instrumentation></configuration>";
    for value in ["1", "0"] {
        for name in ["NEW_RELIC_FORCE_PROFILING", "NEWRELIC_FORCE_PROFILING"] {
            let case = Case { global: excluded, variables: &[(name, value)], ..Case::default() };
            let build = Process { command_line: "dotnet MSBuild.dll ", ..CORE };
            assert_eq!(case.decide(build), Decision { instrument: true, reason: Reason::Forced });
            assert!(case.instruments(FRAMEWORK));
        }
    }
}

#[test]
fn command_lines_that_are_not_instrumented() {
    for line in [
        "dotnet run",
        "dotnet publish",
        "dotnet restore",
        "dotnet new console",
        "DOTNET RUN ",
        "dotnet.exe run",
        "\"dotnet\" run",
        "'dotnet' run",
        "\"dotnet.exe\" publish",
        "'dotnet.exe' restore",
        "/usr/bin/dotnet run --project x ",
        "C:\\Program Files\\dotnet\\dotnet.exe run",
        "\"C:\\Program Files\\dotnet\\dotnet.exe\" new",
        "'/my tools/dotnet' run ",
        "dotnet   run",
        "dotnet /usr/share/dotnet/sdk/MSBuild.dll /nologo",
        "dotnet /sdk/msbuild.DLL ",
        "dotnet Kudu.Services.Web.dll",
        "dotnet /opt/kuduagent.dll ",
        "./DiagServer --x",
        "\"/usr/share/dotnet/dotnet\" publish -c Release",
        "dotnet Restore App.sln",
        // Programs with such arguments are taken for the command itself.
        "/app/app dotnet run ",
        "app.exe dotnet publish",
        "app \"dotnet\" restore",
    ] {
        assert!(!Case::default().instruments(Process { command_line: line, ..CORE }), "{line}");
    }
}

#[test]
fn command_lines_that_are_instrumented() {
    for line in [
        "",
        "dotnet",
        "dotnet ",
        "dotnet App.dll",
        "dotnet App.dll run",
        "dotnet exec App.dll run",
        "dotnet test",
        "dotnet build",
        "dotnet App.dll dotnet run",
        "dotnet runner",
        "mydotnet run",
        "dotnetx run",
        "my.dotnet run",
        "app run",
        "/app/App ",
        "run dotnet",
        "dotnet MSBuild",
        "DiagServer",
        "app dotnet",
    ] {
        assert!(Case::default().instruments(Process { command_line: line, ..CORE }), "{line}");
    }
}

#[test]
fn lists_of_processes() {
    let excluded = |name: &str| {
        format!(
            "<configuration><instrumentation><applications><application name='{name}' \
             include='false'/>\
             <application name='dotnet'/></applications></instrumentation></configuration>"
        )
    };
    let decide =
        |name: &str, process| Case { global: &excluded(name), ..Case::default() }.decide(process);
    assert_eq!(decide("dotnet", CORE), Decision { instrument: false, reason: Reason::Excluded });
    assert_eq!(decide("DOTNET", CORE).reason, Reason::Excluded);
    // The file name counts, as a whole.
    for name in ["/usr/bin/dotnet", "otnet", "App.dll"] {
        assert!(decide(name, CORE).instrument, "{name}");
    }
    let variables = [("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "a,dotnet")];
    assert!(!Case { variables: &variables, ..Case::default() }.instruments(CORE));
    let other = [("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "a,b")];
    assert!(
        Case { global: &excluded("dotnet"), variables: &other, ..Case::default() }
            .instruments(CORE)
    );
    // .NET Core does not ask for the list of included ones.
    let included = [("NEW_RELIC_INCLUDED_APPLICATION_NAMES", "other")];
    assert!(Case { variables: &included, ..Case::default() }.instruments(CORE));
    let windows_path = Process { path: "C:\\x\\App.exe", ..CORE };
    assert!(
        !windows(&[("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "app.EXE")]).instruments(windows_path)
    );
}

#[test]
fn core_ignores_agent_enabled() {
    assert!(
        Case { global: "<configuration agentEnabled='false'/>", ..Case::default() }
            .instruments(CORE)
    );
    let application = "<configuration><appSettings><add key='NewRelic.AgentEnabled' \
        value='false'/></appSettings></configuration>";
    assert!(Case { application: Some(application), ..Case::default() }.instruments(CORE));
}

#[test]
fn azure_functions() {
    let instruments = |runtime, pool, path, line| {
        let variables = [("FUNCTIONS_WORKER_RUNTIME", runtime), ("APP_POOL_ID", pool)];
        let decision = windows(&variables).decide(Process { path, command_line: line, ..CORE });
        (decision.instrument, matches!(decision.reason, Reason::AzureFunction(_)))
    };
    let app = "C:\\x\\App.exe";
    let host = "/azure-functions-host/microsoft.azure.webjobs.script.webhost";
    for (runtime, pool, path, line, expected) in [
        ("dotnet", "Site", app, "App.exe", (true, true)),
        ("DOTNET", "~1Site", app, "App.exe", (false, true)),
        ("dotnet", "", app, "App.exe", (true, true)),
        ("dotnet-isolated", "Site", app, "w3wp.exe -ap SITE", (false, true)),
        ("dotnet-isolated", "", host, "x", (false, true)),
        ("dotnet-isolated", "", app, host, (false, true)),
        ("dotnet-isolated", "", "C:\\x\\FunctionsNetHost.exe", "x", (true, true)),
        ("dotnet-isolated", "", "C:\\x\\func.exe", "x --worker-id 1", (false, true)),
        ("dotnet-isolated", "", app, "App --functions-worker-id 1", (true, true)),
        ("dotnet-isolated", "", app, "App --WORKER-ID 1", (true, true)),
        ("dotnet-isolated", "", app, "App", (true, false)),
        ("dotnet-isolated", "", app, "dotnet run", (false, false)),
        ("", "Site", app, "x FUNC.EXE", (true, false)),
    ] {
        assert_eq!(
            instruments(runtime, pool, path, line),
            expected,
            "{runtime} {pool} {path} {line}"
        );
    }
    let off = [
        ("FUNCTIONS_WORKER_RUNTIME", "dotnet"),
        ("APP_POOL_ID", "~1"),
        ("NEW_RELIC_AZURE_FUNCTION_MODE_ENABLED", "0"),
    ];
    assert_eq!(windows(&off).decide(CORE), Decision { instrument: true, reason: Reason::Default });
    let excluded = [
        ("FUNCTIONS_WORKER_RUNTIME", "dotnet"),
        ("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "dotnet"),
    ];
    assert_eq!(
        Case { variables: &excluded, ..Case::default() }.decide(CORE).reason,
        Reason::Excluded
    );
}

const POOLS: &str = "<configuration><applicationPools><defaultBehavior instrument='false'/>\
    <applicationPool name='On' instrument='true'/><applicationPool name='Off' \
    instrument='false'/></applicationPools></configuration>";

#[test]
fn pools() {
    let decide = |process: Process<'_>, pool| {
        Case {
            global: POOLS,
            platform: Platform::Windows,
            variables: &[("APP_POOL_ID", pool)],
            ..Case::default()
        }
        .decide(process)
    };
    let in_process = Process { path: "C:\\Windows\\System32\\inetsrv\\w3wp.exe", ..CORE };
    let out_of_process =
        Process { parent_path: "C:\\Windows\\System32\\inetsrv\\W3WP.EXE", ..CORE };
    let framework = Process { path: in_process.path, ..FRAMEWORK };
    for process in [in_process, out_of_process, framework] {
        for (pool, expected) in [("On", true), ("Off", false), ("Other", false), ("~1", false)] {
            let reason = Reason::Pool(pool.to_owned());
            assert_eq!(
                decide(process, pool),
                Decision { instrument: expected, reason },
                "{}",
                process.path
            );
        }
    }
    // Other processes are in no pool.
    assert_eq!(decide(CORE, "Off").reason, Reason::Default);
    let from_line = Process { command_line: "w3wp.exe -ap \"On\"", ..in_process };
    assert!(
        Case { global: POOLS, platform: Platform::Windows, ..Case::default() }
            .instruments(from_line)
    );
    let core_module = [("ASPNETCORE_IIS_APP_POOL_ID", "On")];
    assert!(
        Case {
            global: POOLS,
            platform: Platform::Windows,
            variables: &core_module,
            ..Case::default()
        }
        .instruments(out_of_process)
    );
}

fn at(path: &str) -> Process<'_> {
    Process { path, ..FRAMEWORK }
}

#[test]
fn framework_in_order() {
    let case = |global, local, application| Case {
        global,
        local,
        application,
        platform: Platform::Windows,
        ..Case::default()
    };
    let empty = "<configuration/>";
    let on = "<configuration><appSettings><add key='NewRelic.AgentEnabled' \
        value='true'/></appSettings></configuration>";
    let off = "<configuration><appSettings><add key='NewRelic.AgentEnabled' \
        value='no'/></appSettings></configuration>";
    let included = "<configuration><instrumentation><applications><application \
        name='App.exe'/></applications></instrumentation></configuration>";
    let disabled = "<configuration agentEnabled='false'/>";
    let decide = |case: Case<'_>, path| {
        let Decision { instrument, reason } = case.decide(at(path));
        (instrument, reason)
    };
    let app = "C:\\App\\App.exe";
    assert_eq!(decide(case(empty, None, None), app), (false, Reason::Default));
    assert_eq!(decide(case(disabled, None, Some(on)), app), (false, Reason::AgentDisabled));
    assert_eq!(decide(case(empty, Some(disabled), Some(on)), app), (false, Reason::AgentDisabled));
    assert_eq!(
        decide(case(empty, None, Some(on)), "C:\\x\\smsvchost.exe"),
        (false, Reason::KnownProcess("SMSvcHost.exe"))
    );
    assert_eq!(decide(case(empty, None, Some(on)), app), (true, Reason::ApplicationConfiguration));
    assert_eq!(
        decide(case(included, None, Some(off)), app),
        (false, Reason::ApplicationConfiguration)
    );
    assert_eq!(decide(case(included, None, None), app), (true, Reason::Included));
    // The end of the path counts here.
    assert_eq!(decide(case(included, None, None), "C:\\MyApp.exe"), (true, Reason::Included));
    assert_eq!(decide(case(empty, Some(empty), None), app), (true, Reason::LocallyEnabled));
    for host in [
        "WebDev.WebServer40.exe",
        "WebDev.WebServer20.exe",
        "inetinfo.exe",
        "WaWorkerHost.exe",
        "WaWebHost.exe",
        "WcfSvcHost.exe",
        "aspnet_wp.exe",
        "iisexpress.exe",
        "dotnet.exe",
    ] {
        let path = format!("C:\\x\\{host}");
        let decision = case(empty, None, None).decide(at(&path));
        assert!(
            decision.instrument && matches!(decision.reason, Reason::KnownProcess(_)),
            "{host}"
        );
        let excluded = [("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", host)];
        assert!(!windows(&excluded).instruments(at(&path)), "{host}");
    }
    // Commands of the .NET command line count on .NET Core only.
    let run = Process { command_line: "dotnet run", ..at("C:\\x\\dotnet.exe") };
    assert!(case(empty, None, None).instruments(run));
}

#[test]
fn unix_command_lines() {
    assert_eq!(unix_command_line(["dotnet", "App.dll"]), "dotnet App.dll ");
    assert_eq!(unix_command_line(["/my tools/dotnet", "run"]), "'/my tools/dotnet' run ");
    assert_eq!(unix_command_line([]), "");
    let line = unix_command_line(["/usr/bin/my tool/dotnet", "run"]);
    assert!(!Case::default().instruments(Process { command_line: &line, ..CORE }));
}

#[test]
fn reasons_are_sentences() {
    assert_eq!(
        Reason::DotnetCommand("run".to_owned()).to_string(),
        "it is the command \"dotnet run\""
    );
    assert_eq!(Reason::Tool("MSBuild.dll").to_string(), "its command line contains MSBuild.dll");
}

#[test]
fn excluded_wins_over_included() {
    let both = "<configuration><instrumentation><applications><application name='App.exe'/>\
                <application name='App.exe' \
                include='false'/></applications></instrumentation></configuration>";
    let case = Case { global: both, platform: Platform::Windows, ..Case::default() };
    assert_eq!(case.decide(FRAMEWORK).reason, Reason::Excluded);
    assert_eq!(case.decide(Process { path: FRAMEWORK.path, ..CORE }).reason, Reason::Excluded);
    let variables = [
        ("NEW_RELIC_INCLUDED_APPLICATION_NAMES", "App.exe"),
        ("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "APP.EXE"),
    ];
    assert_eq!(windows(&variables).decide(FRAMEWORK).reason, Reason::Excluded);
    assert_eq!(windows(&variables[..1]).decide(FRAMEWORK).reason, Reason::Included);
}

#[test]
fn paths_that_cannot_be_read_or_are_not_ascii() {
    for path in [".", "", "/usr/bin/\u{65e5}\u{672c}\u{8a9e}", "\u{65e5}3WP.EXE"] {
        assert!(Case::default().instruments(Process { path, ..CORE }), "{path}");
        assert!(!windows(&[]).instruments(Process { path, ..FRAMEWORK }), "{path}");
    }
}

#[test]
fn texts() {
    assert!(
        ends_with("C:\\x\\w3wp.exe", "W3WP.EXE")
            && ends_with("w3wp.exe", "W3WP.EXE")
            && ends_with("x", "")
    );
    assert!(!ends_with("3wp.exe", "W3WP.EXE") && !ends_with("w3wp.exe.config", "W3WP.EXE"));
    assert!(!ends_with("\u{65e5}", "\u{a5}"));
    assert!(
        contains("a MSBUILD.dll b", "MSBuild.dll")
            && contains("x", "")
            && !contains("MSBuild", "MSBuild.dll")
    );
    assert_eq!(file_name("/usr/bin/a\\b", Platform::Unix), "a\\b");
    assert_eq!(file_name("C:\\x/a\\b.exe", Platform::Windows), "b.exe");
    assert_eq!(file_name("", Platform::Unix), "");
}

#[test]
fn agent_enabled_of_both_files_for_both_runtimes() {
    let file = |enabled: bool| {
        if enabled {
            "<configuration agentEnabled='true'/>"
        } else {
            "<configuration agentEnabled='false'/>"
        }
    };
    for (global, local, framework) in [
        (true, None, (false, Reason::Default)),
        (false, None, (false, Reason::AgentDisabled)),
        (true, Some(true), (true, Reason::LocallyEnabled)),
        (true, Some(false), (false, Reason::AgentDisabled)),
        (false, Some(true), (false, Reason::AgentDisabled)),
        (false, Some(false), (false, Reason::AgentDisabled)),
    ] {
        let case = Case { global: file(global), local: local.map(file), ..Case::default() };
        let decision = case.decide(FRAMEWORK);
        assert_eq!((decision.instrument, decision.reason), framework, "{global} {local:?}");
        assert_eq!(
            case.decide(CORE),
            Decision { instrument: true, reason: Reason::Default },
            "{global} {local:?}"
        );
    }
}

#[test]
fn application_configurations_for_both_runtimes() {
    let setting = |value: &str| {
        format!(
            "<configuration><appSettings><add key='NewRelic.AgentEnabled' \
                value='{value}'/></appSettings></configuration>"
        )
    };
    let unrelated =
        "<configuration><appSettings><add key='Other' value='true'/></appSettings></configuration>";
    let host = Process { path: "C:\\x\\iisexpress.exe", ..FRAMEWORK };
    for (application, app, hosted) in [
        (Some(setting("true")), true, true),
        (Some(setting("True")), true, true),
        (Some(setting("false")), false, false),
        (Some(setting("")), false, false),
        (Some(setting("1")), false, false),
        (Some(unrelated.to_owned()), false, true),
        (Some("<configuration>".to_owned()), false, true),
        (None, false, true),
    ] {
        let case = Case {
            application: application.as_deref(),
            platform: Platform::Windows,
            ..Case::default()
        };
        assert_eq!(case.instruments(FRAMEWORK), app, "{application:?}");
        assert_eq!(case.instruments(host), hosted, "{application:?}");
        assert!(case.instruments(CORE), "{application:?}");
    }
}

#[test]
fn each_rule_for_pools_in_and_out_of_process() {
    let worker = "C:\\Windows\\System32\\inetsrv\\w3wp.exe";
    let processes = [
        Process { path: worker, ..CORE },
        Process { parent_path: worker, ..CORE },
        Process { path: worker, ..FRAMEWORK },
    ];
    let listed =
        |instrument: bool| format!("<applicationPool name='Site' instrument='{instrument}'/>");
    let by_default = |instrument: bool| format!("<defaultBehavior instrument='{instrument}'/>");
    for (rules, pool, expected) in [
        (String::new(), "Site", true),
        (String::new(), "~Site", false),
        (by_default(true), "Site", true),
        (by_default(false), "Site", false),
        (listed(true), "Site", true),
        (listed(false), "Site", false),
        (listed(true), "site", true),
        (by_default(false) + &listed(true), "Site", true),
        (by_default(false) + &listed(true), "site", false),
        (by_default(false) + &listed(true), "Other", false),
        (by_default(true) + &listed(false), "Site", false),
        (by_default(true) + &listed(false), "Other", true),
        (by_default(true), "~Site", false),
    ] {
        let global =
            format!("<configuration><applicationPools>{rules}</applicationPools></configuration>");
        for name in ["APP_POOL_ID", "ASPNETCORE_IIS_APP_POOL_ID"] {
            let variables = [(name, pool)];
            let case = Case {
                global: &global,
                platform: Platform::Windows,
                variables: &variables,
                ..Case::default()
            };
            for process in processes {
                assert_eq!(
                    case.instruments(process),
                    expected,
                    "{rules} {name}={pool} {process:?}"
                );
            }
        }
        let line = format!("w3wp.exe -ap \"{pool}\" -v v4.0");
        let case = Case { global: &global, platform: Platform::Windows, ..Case::default() };
        for process in processes {
            let process = Process { command_line: &line, ..process };
            assert_eq!(case.instruments(process), expected, "{rules} {line} {process:?}");
        }
    }
}
