//! The web page of `cargo sandbox serve`: its buttons, and who may press them.

use crate::support::{Lines, PATIENCE, sandbox};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The page of a running sandbox.
struct Page {
    address: String,
    token: String,
}

impl Page {
    fn of(server: &Lines) -> Self {
        let line = server.wait(&["web page: http://127.0.0.1:"]);
        let url = line.trim_start_matches("web page: http://");
        let (address, token) = url.split_once("/#token=").unwrap();
        Self { address: address.to_owned(), token: token.to_owned() }
    }

    /// The answer to a command, with further headers.
    fn post(&self, headers: &str, command: &str) -> String {
        let host =
            if headers.contains("Host: ") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let length = command.len();
        let head = format!("POST /sandbox HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\n\r\n");
        exchange(&self.address, &format!("{head}{command}"))
    }

    /// The answer to the press of a button.
    fn press(&self, command: &str) -> String {
        self.post(&format!("X-Flipop-Sandbox: {}\r\n", self.token), command)
    }

    fn get(&self, path: &str) -> String {
        exchange(&self.address, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }
}

/// Sends a request, and returns everything that the server answers. No answer may let other origins in.
fn exchange(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    assert!(!head.contains("access-control") && !head.contains("set-cookie"), "{head}");
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn only_the_printed_url_makes_the_buttons_work() {
    let server = Lines::of(sandbox(&["serve"]));
    let page = Page::of(&server);
    let operator = server.wait(&["metrics: http://127.0.0.1:"]);
    let operator = operator.trim_start_matches("metrics: http://").trim_end_matches("/metrics").to_owned();
    server.wait(&["pool", "default/ingress-pool Ready=True"]);
    let index = page.get("/");
    assert!(
        index.contains("levers.js") && index.contains("content-security-policy: default-src 'none'"),
        "{index}"
    );
    let token = format!("X-Flipop-Sandbox: {}\r\n", page.token);
    let mut guess = page.token.clone();
    guess.replace_range(..1, if guess.starts_with('0') { "1" } else { "0" });
    for (headers, code) in [
        (String::new(), "403"),
        (format!("X-Flipop-Sandbox: {guess}\r\n"), "403"),
        (format!("Cookie: token={}\r\n", page.token), "403"),
        ("Origin: https://evil.example\r\n".to_owned(), "403"),
        (format!("Host: evil.example\r\n{token}"), "421"),
        (format!("Host: {}\r\nHost: evil.example\r\n{token}", page.address), "421"),
    ] {
        let answer = page.post(&headers, "kill edge-1");
        assert_eq!(status(&answer), code, "{headers:?}: {answer}");
    }
    let wrong_host = "GET /sandbox HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    assert_eq!(status(&exchange(&page.address, wrong_host)), "421");
    let preflight = "OPTIONS /sandbox HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\
                     Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-flipop-sandbox\r\n\r\n";
    assert_eq!(status(&exchange(&page.address, preflight)), "405");
    // A command without a button, two texts that are no commands, and one that is too long.
    for (command, code) in [("quit", "400"), ("", "400"), ("kil edge-1", "400"), (&"x".repeat(600), "413")] {
        assert_eq!(status(&page.press(command)), code, "{command}");
    }
    let unknown = page.press("kill nobody");
    assert!(status(&unknown) == "409" && unknown.contains("no node is called nobody"), "{unknown}");
    assert!(
        page.get("/sandbox")
            .contains(r#"{"address":"203.0.113.10","cordoned":false,"name":"edge-1","ready":true}"#),
        "no command was carried out"
    );
    // The operator itself has none of this.
    let own = exchange(&operator, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(status(&own) == "200" && !own.contains("levers") && !own.contains("button"), "{own}");
    let post = format!("POST /sandbox HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 0\r\n\r\n");
    assert_eq!(status(&exchange(&operator, &post)), "404");
    let killed = page.press("kill edge-1");
    assert!(status(&killed) == "200" && killed.contains("KILL edge-1"), "{killed}");
    server.wait(&["account", "203.0.113.10 is on edge-3"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long a test waits is real time")]
fn buttons_add_a_node_break_the_providers_and_lose_the_lease() {
    let server = Lines::of(sandbox(&["serve"]));
    let page = Page::of(&server);
    server.wait(&["pool", "default/game-servers Ready=True"]);
    let added = page.press("add edge-1");
    assert!(status(&added) == "200" && added.contains("ADD edge-4"), "{added}");
    server.wait(&["the set starts", "on edge-4"]);
    assert_eq!(status(&page.press("add edge-4")), "200");
    server.wait(&["the set starts", "on edge-5"]);
    assert_eq!(status(&page.press("providers down")), "200");
    assert!(page.get("/sandbox").contains(r#""providersUp":false"#));
    page.press("kill games-1");
    server.wait(&["pool", "default/game-servers Ready=False"]);
    assert_eq!(status(&page.press("providers up")), "200");
    server.wait(&["account", "is on games-4, "]);
    // The page keeps its address even if an operator ends.
    assert_eq!(status(&page.press("lease")), "200");
    server.wait(&["an operator has ended"]);
    let begun = Instant::now();
    while !page.get("/debug").contains(r#""leading":true"#) {
        assert!(begun.elapsed() < PATIENCE, "no operator leads again: {}", page.get("/debug"));
        std::thread::sleep(Duration::from_millis(200));
    }
}
