//! The pages for browsers, and the files that they load.

mod common;

use common::{Served, files_in};

#[test]
fn pages_have_a_policy_and_their_files_are_kept() {
    let served = Served::start();
    let page = served.get("/").expect(200);
    for path in ["/processes", "/sessions/a-b", "/checkups/x?y=1", "/record?pid=1"] {
        assert_eq!(served.get(path).expect(200).body, page.body, "{path}");
    }
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let policy = &page.headers["content-security-policy"];
    for part in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    let text = page.text();
    let files: Vec<_> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
    assert!(files.len() >= 3, "{text}");
    for file in files {
        let plain = served.get(file).expect(200);
        assert_eq!(plain.headers["cache-control"], "private, max-age=31536000, immutable");
        assert!(!plain.headers.contains_key("content-encoding"), "{file}");
        let zipped = served.ask("GET", file, &[("Accept-Encoding", "br, gzip")], b"").expect(200);
        assert_eq!(zipped.headers["content-encoding"], "gzip");
        assert_eq!(zipped.headers["vary"], "Accept-Encoding");
        assert!(zipped.body.starts_with(&[0x1f, 0x8b]) && zipped.body != plain.body, "{file}");
        // Its address is that of these bytes, and of no others.
        let name = file.rsplit('/').next().unwrap();
        served.get(&format!("/assets/0123456789abcdef/{name}")).expect_problem(404, "older");
        // Without a token or cookie it is not shown.
        served.send("GET", file, &[], b"").expect(401);
    }
    served.get("/assets/x/..%2f..%2fCargo.toml").expect(404);
    served.get("/nowhere").expect_problem(404, "nothing");
}

#[test]
fn a_person_who_is_not_let_in_gets_a_page() {
    let served = Served::start();
    let browser = [("Accept", "text/html,application/xhtml+xml;q=0.9")];
    for path in ["/", "/sessions", "/?token=wrong%3Cb%3E"] {
        let answer = served.send("GET", path, &browser, b"").expect(401);
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        let text = answer.text();
        assert!(text.contains("clrscope") && !text.contains("script") && !text.contains("<b>"));
    }
    let answer = served.send("GET", "/api/v1/sessions", &browser, b"");
    answer.expect_problem(401, "token");
}

#[test]
fn a_session_is_renamed_and_noted() {
    let served = Served::start();
    served.add("one");
    let json = [("Content-Type", "application/json")];
    let patch = |name: &str, body: &str| {
        served.ask("PATCH", &format!("/api/v1/sessions/{name}"), &json, body.as_bytes())
    };
    let row = patch("one", r#"{"note":"before <the> fix"}"#).expect(200).json();
    assert_eq!((&row["id"], &row["note"]), (&"one".into(), &"before <the> fix".into()));
    let row = patch("one", r#"{"name":"two"}"#).expect(200).json();
    assert_eq!((&row["id"], &row["note"]), (&"two".into(), &"before <the> fix".into()));
    served.get("/api/v1/sessions/one").expect(404);
    let list = served.get("/api/v1/sessions").expect(200).json();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["note"]), (1, &row["note"]));
    patch("two", r#"{"name":"../up"}"#).expect_problem(400, "letters");
    patch("two", r#"{"title":"x"}"#).expect_problem(400, "title");
    patch("none", "{}").expect_problem(404, "none");
    served.ask("PATCH", "/api/v1/sessions/two", &[], b"{}").expect(415);
    served.ask("DELETE", "/api/v1/sessions/two", &[], b"").expect(204);
    assert_eq!(files_in(served.path("two").parent().unwrap()), 0);
}

#[test]
fn forms_are_made_of_what_the_server_says() {
    let served = Served::start();
    let profilers = served.get("/api/v1/profilers").expect(200).json();
    let ids: Vec<_> = profilers.as_array().unwrap().iter().map(|own| own["id"].clone()).collect();
    assert!(profilers.as_array().unwrap().iter().all(|own| own["overhead"] != ""), "{profilers}");
    for preset in served.get("/api/v1/presets").expect(200).json().as_array().unwrap() {
        let text = preset["profilers"].as_str().unwrap();
        assert!(text.split(',').all(|id| ids.contains(&id.into())), "{preset}");
    }
    let formats = served.get("/api/v1/formats").expect(200).json();
    served.add("one");
    for format in formats.as_array().unwrap() {
        let id = format["id"].as_str().unwrap();
        let answer = served.get(&format!("/api/v1/sessions/one/report?format={id}"));
        assert!([200, 422].contains(&answer.status), "{id}: {}", answer.status);
    }
}
