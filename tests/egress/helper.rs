//! The helpers that run inside network namespaces: this program again, as a server or a client, or to change kernel
//! settings.

use flipop::agent::kernel::Kernel;
use flipop::agent::layout::{Exit, Found, Layout, steps};
use flipop::network::Network;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Longest wait of a client.
const PATIENCE: Duration = Duration::from_millis(300);

/// Longest wait of a client whose server is known to be in reach. On a busy machine the server may be slow.
const LONG_PATIENCE: Duration = Duration::from_secs(3);

/// Runs the helper that the arguments name. `None` if they name none.
pub(crate) fn run(arguments: &[String]) -> Option<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["record", address] => record(address),
        ["metadata", file] => metadata(file),
        ["ask", address] => println!("{}", ask(address, PATIENCE).unwrap_or_else(|error| error)),
        ["reach", address] => println!("{}", ask(address, LONG_PATIENCE).unwrap_or_else(|error| error)),
        ["probe", address] => probe(address),
        ["get", address, path] => get(address.parse().unwrap(), path),
        ["keep", address] => keep(address.parse().unwrap()),
        ["steps", count, rest @ ..] => set(count.parse().unwrap(), rest),
        ["unset", count, mark] => unset(count.parse().unwrap(), mark.parse().unwrap()),
        _ => return None,
    }
    Some(())
}

/// A server that tells each client its address, and then echoes.
fn record(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let peer = stream.peer_addr().unwrap().ip();
            let _gone = writeln!(stream, "{peer}");
            let mut buffer = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
        });
    }
}

/// The metadata service. Each line of a file, `path value`, is an answer, and any other path gets 404. While the file
/// begins with `away`, the service closes connections without an answer.
fn metadata(file: &str) {
    let listener = TcpListener::bind("169.254.169.254:80").unwrap();
    for stream in listener.incoming() {
        let (stream, file) = (stream.unwrap(), file.to_owned());
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            loop {
                let mut request = String::new();
                if stream.read_line(&mut request).unwrap_or(0) == 0 {
                    return;
                }
                let mut header = String::new();
                while stream.read_line(&mut header).is_ok_and(|length| length > 2) {
                    header.clear();
                }
                let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches("/metadata/v1/");
                let text = fs::read_to_string(&file).unwrap_or_default();
                if text.starts_with("away") {
                    return;
                }
                let value = text.lines().find_map(|line| line.strip_prefix(path)?.strip_prefix(' '));
                let (status, body) = value.map_or(("404 Not Found", ""), |value| ("200 OK", value));
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
                if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

/// The address by which a server knows us.
fn ask(server: &str, patience: Duration) -> Result<String, String> {
    let server = server.parse().unwrap();
    let stream = TcpStream::connect_timeout(&server, patience).map_err(|error| format!("none: {error}"))?;
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| format!("none: {error}"))?;
    Ok(line.trim_end().to_owned())
}

/// Prints the status and the body of an HTTP answer.
fn get(server: SocketAddr, path: &str) {
    let Ok(mut stream) = TcpStream::connect_timeout(&server, PATIENCE) else { return println!("0") };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut answer = Vec::new();
    let _timed_out = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    println!("{}\n{body}", head.split(' ').nth(1).unwrap_or("0"));
}

/// Asks every 20 ms, each time on a new connection, and prints the answer whenever it changes.
fn probe(server: &str) {
    let mut last = String::new();
    loop {
        let begun = Instant::now();
        let said = ask(server, PATIENCE).unwrap_or_else(|_| "none".to_owned());
        if said != last {
            println!("{said}");
            last = said;
        }
        std::thread::sleep(Duration::from_millis(20).saturating_sub(begun.elapsed()));
    }
}

/// Keeps one connection busy, and prints when it ends.
fn keep(server: SocketAddr) {
    let stream = TcpStream::connect_timeout(&server, Duration::from_secs(2)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    println!("open {}", line.trim_end());
    let mut byte = [0];
    loop {
        if stream.get_mut().write_all(b"x").is_err() || !matches!(stream.read(&mut byte), Ok(1)) {
            println!("ended");
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Takes this many steps to a layout, as an agent that is killed after them. Prints the number of all steps.
fn set(count: usize, words: &[&str]) {
    let [address, anchor, gateway, pods] = words else { panic!("{words:?}") };
    let mut kernel = Kernel::open().unwrap();
    let found = kernel.look().unwrap();
    let anchor = anchor.parse().unwrap();
    let exit = Exit {
        address: address.parse().unwrap(),
        anchor,
        gateway: gateway.parse().unwrap(),
        interface: found.interface_of(anchor).unwrap(),
    };
    let layout = Layout {
        exit: Some(exit),
        pods: vec![Network::parse(pods).unwrap()],
        except: Vec::new(),
        subnets: vec![Network::parse("192.0.2.0/24").unwrap()],
        block: false,
        except6: None,
        mark: 0x1000,
    };
    take(&mut kernel, &found, Some(&layout), count);
}

/// Takes this many steps to remove our settings.
fn unset(count: usize, mark: u32) {
    let mut kernel = Kernel::open().unwrap();
    let found = kernel.look().unwrap();
    assert_eq!(mark, 0x1000);
    take(&mut kernel, &found, None, count);
}

fn take(kernel: &mut Kernel, found: &Found, layout: Option<&Layout>, count: usize) {
    let todo = steps(found, layout, 0x1000, None);
    for step in todo.iter().take(count) {
        kernel.take(step).unwrap();
    }
    println!("{}", todo.len());
}
