//! Who is let in, and who is not.

mod common;

use common::{Served, TOKEN};
use std::{
    io::{Read as _, Write as _},
    time::{Duration, Instant},
};

const ANY: &str = "/api/v1/profilers";

/// A cookie for the token in the address.
fn cookie(served: &Served) -> String {
    let answer = served.send("GET", &format!("/?token={}", served.once()), &[], b"").expect(303);
    assert_eq!(answer.headers["location"], "/");
    let cookie = &answer.headers["set-cookie"];
    for part in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=86400"] {
        assert!(cookie.split("; ").any(|own| own == part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn a_request_without_a_token_is_refused() {
    let served = Served::start();
    for (path, headers) in [
        (ANY, vec![]),
        ("/", vec![]),
        ("/nowhere", vec![]),
        ("/api/v1/openapi.json", vec![]),
        ("/?token=wrong", vec![]),
        ("/?token=", vec![]),
        (ANY, vec![("Authorization", "Bearer wrong")]),
        (ANY, vec![("Authorization", "Bearer ")]),
        (ANY, vec![("Authorization", TOKEN)]),
        (ANY, vec![("Authorization", "Basic Og==")]),
        (ANY, vec![("Cookie", "clrscope=; a=b; =")]),
    ] {
        let answer = served.send("GET", path, &headers, b"").expect_problem(401, "token");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    for (method, path) in [("POST", "/api/v1/recordings"), ("DELETE", "/api/v1/sessions/a")] {
        served.send(method, path, &[], b"").expect_problem(401, "token");
    }
    // The token in an address is for the first page only, and that of the file for no address.
    served.send("GET", &format!("{ANY}?token={}", served.once()), &[], b"").expect(401);
    served.send("GET", &format!("/?token={TOKEN}"), &[], b"").expect(401);
    let once = format!("Bearer {}", served.once());
    served.send("GET", ANY, &[("Authorization", &once)], b"").expect(401);
}

#[test]
fn the_token_in_the_address_is_for_one_browser() {
    let served = Served::start();
    let cookie = cookie(&served);
    let page = served.send("GET", "/", &[("Cookie", &cookie)], b"").expect(200).text();
    assert!(page.contains("/assets/"), "{page}");
    let both = format!("other=1; {cookie}; more=2");
    served.send("GET", ANY, &[("Cookie", &both)], b"").expect(200);
    served
        .send("GET", &format!("/?token={}", served.once()), &[], b"")
        .expect_problem(401, "already used");
    // Who is let in already may open the address again.
    let path = format!("/?token={}", served.once());
    let again = served.send("GET", &path, &[("Cookie", &cookie)], b"").expect(303);
    assert_eq!(again.headers["location"], "/");
    // A wrong header is not made good by a cookie.
    let headers = [("Cookie", cookie.as_str()), ("Authorization", "Bearer wrong")];
    served.send("GET", ANY, &headers, b"").expect(401);
    let other = Served::start();
    other.send("GET", ANY, &[("Cookie", &cookie)], b"").expect(401);
}

#[test]
fn scripts_have_the_token_of_the_file() {
    let served = Served::start();
    served.get(ANY).expect(200);
    let lower = format!("bearer {TOKEN}");
    served.send("GET", ANY, &[("Authorization", &lower)], b"").expect(200);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let served = Served::start();
    let own = served.address.to_string();
    let port = served.address.port();
    for host in [own.clone(), format!("localhost:{port}"), "box.example".into(), "[::1]:9".into()] {
        let origin = format!("http://{host}");
        served.ask("GET", ANY, &[("Host", &host), ("Origin", &origin)], b"").expect(200);
    }
    for host in ["evil.example", &format!("evil.example:{port}"), "10.0.0.1", "", "localhost.x"] {
        served.ask("GET", ANY, &[("Host", host)], b"").expect_problem(403, "Host");
        // Before the token: it is not spent on somebody else's name.
        let path = format!("/?token={}", served.once());
        served.send("GET", &path, &[("Host", host)], b"").expect(403);
    }
    served.ask("GET", ANY, &[("Host", &own), ("Host", &own)], b"").expect(403);
    let cookie = cookie(&served);
    for origin in ["http://evil.example", "null", "http://localhost", "https://127.0.0.1:1"] {
        for (method, path) in [
            ("GET", ANY),
            ("POST", "/api/v1/recordings"),
            ("POST", "/api/v1/sessions"),
            ("DELETE", "/api/v1/sessions/a"),
            ("GET", "/api/v1/recordings/a/events"),
            ("OPTIONS", "/api/v1/sessions"),
        ] {
            let headers = [("Origin", origin), ("Cookie", cookie.as_str())];
            served.send(method, path, &headers, b"").expect_problem(403, "origin");
        }
    }
    for site in ["cross-site", "same-site"] {
        let headers = [("Sec-Fetch-Site", site), ("Cookie", cookie.as_str())];
        served.send("GET", ANY, &headers, b"").expect_problem(403, "origin");
    }
}

#[test]
fn every_answer_protects_the_browser() {
    let served = Served::start();
    for answer in [
        served.get(ANY).expect(200),
        served.get("/").expect(200),
        served.get("/nowhere").expect_problem(404, "nothing"),
        served.send("GET", ANY, &[], b"").expect(401),
        served.send("GET", ANY, &[("Host", "evil")], b"").expect(403),
        served.ask("PUT", ANY, &[], b"").expect_problem(405, "method"),
    ] {
        let policy = &answer.headers["content-security-policy"];
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.headers[name], value);
        }
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
}

#[test]
fn an_open_address_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let config = server::Config {
        listen: "0.0.0.0:0".parse().unwrap(),
        token: None,
        hosts: Vec::new(),
        tls: None,
        launch: false,
        sessions: folder.path().to_owned(),
        retention: server::Retention::default(),
        most_upload: server::MOST_UPLOAD,
    };
    let bound = server::Server::bind(config, common::program());
    assert!(matches!(bound, Err(server::ServeError::NoToken(_))));
}

#[test]
fn heads_and_bodies_have_limits() {
    let served = Served::start();
    let long = "a".repeat(100_000);
    served.ask("GET", ANY, &[("X-Long", &long)], b"").expect(431);
    let many: Vec<(String, String)> =
        (0..100).map(|number| (format!("X-{number}"), "a".to_owned())).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    served.ask("GET", ANY, &many, b"").expect(431);
    let large = format!("{{\"process\":\"{long}\"}}");
    served.post("/api/v1/recordings", &large).expect_problem(413, "large");
    served.ask("POST", "/api/v1/recordings", &[], b"{}").expect_problem(415, "application/json");
    let text = [("Content-Type", "text/plain")];
    served.ask("POST", "/api/v1/recordings", &text, b"{}").expect_problem(415, "application/json");
    served.raw(b"no http\r\n\r\n").expect(400);
}

#[test]
fn slow_clients_do_no_harm() {
    let served = Served::start();
    served.add("shop");
    let mut slow: Vec<_> = (0..200).map(|_| served.connect()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        let head = match number % 3 {
            // It says nothing, begins a head, or does not read what it has asked for.
            0 => String::new(),
            1 => "GET /api/v1/profilers HTTP/1.1\r\nHost:".to_owned(),
            _ => format!(
                "GET /api/v1/sessions/shop/file HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer \
                 {TOKEN}\r\n\r\n",
                served.address
            ),
        };
        stream.write_all(head.as_bytes()).unwrap();
    }
    // While it opens the files for all of them, others are asked to try again.
    let begun = Instant::now();
    while served.get("/api/v1/sessions").status == 503 && begun.elapsed() < Duration::from_secs(10)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..20 {
        served.get("/api/v1/sessions").expect(200);
        served.get("/api/v1/sessions/shop/report").expect(200);
    }
    // Who does not send the head of a request is sent away.
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"));
}

/// Whoever has no token cannot keep those away who have one.
#[test]
fn strangers_make_room_for_others() {
    let served = Served::start();
    let mut idle: Vec<_> = (0..400).map(|_| served.connect()).collect();
    for _ in 0..5 {
        served.get(ANY).expect(200);
    }
    // The oldest one was sent away, long before the time for a request was over.
    let begun = Instant::now();
    let mut rest = Vec::new();
    let _ = idle[0].read_to_end(&mut rest);
    assert!(rest.is_empty() && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
