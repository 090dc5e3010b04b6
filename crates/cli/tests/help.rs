//! Help is a contract: what it says is looked at when it changes.
mod common;

use common::run;

const COMMANDS: [&str; 23] = [
    "ps",
    "profilers",
    "record",
    "launch",
    "report",
    "checkup",
    "top",
    "heap",
    "leaks",
    "async",
    "stacks",
    "deadlocks",
    "trace",
    "il",
    "compare",
    "validate",
    "newrelic",
    "ui",
    "serve",
    "mcp",
    "schema",
    "completions",
    "man",
];

#[test]
fn help_of_every_command() {
    insta::assert_snapshot!("help", run(["--help"]).expect(0).out);
    for command in COMMANDS {
        insta::assert_snapshot!(format!("help-{command}"), run([command, "--help"]).expect(0).out);
    }
    insta::assert_snapshot!(
        "help-newrelic-check",
        run(["newrelic", "check", "--help"]).expect(0).out
    );
}

#[test]
fn no_command_is_left_out_here() {
    let help = run(["--help"]).expect(0).out;
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let listed: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed[..COMMANDS.len()], COMMANDS);
    assert_eq!(listed[COMMANDS.len()..], ["help"]);
}

#[test]
fn the_manual_names_every_option() {
    let manual = std::fs::read_to_string(testkit::source_root().join("docs/cli.md")).unwrap();
    for command in COMMANDS {
        assert!(manual.contains(&format!("clrscope {command}")), "docs/cli.md lacks {command}");
    }
}

#[test]
fn completions_know_commands_and_formats() {
    for (shell, part) in
        [("bash", "_clrscope"), ("zsh", "#compdef clrscope"), ("fish", "complete -c clrscope")]
    {
        let script = run(["completions", shell]).expect(0).out;
        assert!(script.contains(part) && script.contains("speedscope"), "{shell}");
    }
    run(["completions", "tcsh"]).expect_error(2, &["tcsh", "bash"]);
}

#[test]
fn a_manual_page_for_each_command() {
    let folder = common::scratch();
    let page = run(["man"]).expect(0).out;
    assert!(page.contains(".TH clrscope 1") && page.contains("Exit codes"), "{page}");
    let pages = folder.path().join("man");
    run(["man".as_ref(), pages.as_os_str()]).expect(0);
    for command in COMMANDS {
        let page = std::fs::read_to_string(pages.join(format!("clrscope-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH clrscope-{command} 1")), "{page}");
    }
    let page = std::fs::read_to_string(pages.join("clrscope-newrelic-check.1")).unwrap();
    assert!(page.contains(".TH clrscope-newrelic-check 1") && page.contains("assembly"), "{page}");
}

#[test]
fn profilers_are_those_of_the_registry() {
    let list = run(["profilers", "--json"]).expect(0).json();
    let ids: Vec<&str> =
        list.as_array().unwrap().iter().map(|profiler| profiler["id"].as_str().unwrap()).collect();
    let registry = profilers::PROFILERS.iter().map(|spec| spec.id);
    assert_eq!(ids, registry.collect::<Vec<_>>());
    assert_eq!(ids[..4], ["cpu", "wall", "exceptions", "gc"]);
    let wall = run(["profilers", "wall", "--json"]).expect(0).json();
    assert_eq!(
        (&wall["params"][0]["name"], &wall["params"][0]["range"][1]),
        (&"rate".into(), &100.into())
    );
    let text = run(["profilers", "wall"]).expect(0).out;
    assert!(
        text.contains("-p wall:name=value") && text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    run(["profilers", "nope"]).expect_error(2, &["nope", "clrscope profilers"]);
}
