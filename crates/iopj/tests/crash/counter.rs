//! A meter that every user has: a counter of joules that is asked over HTTP, and outlives the runs.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// The meter's name in its study.
pub(crate) const NAME: &str = "counter";

/// Serves a counter of so many watts until this program ends; returns the table that names it in a study. A
/// machine that is busy may be slow to answer, so much time is given.
pub(crate) fn serve(watts: f64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let began = Instant::now();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream, watts, began)));
        }
    });
    format!(
        "[meters.{NAME}]\nkind = \"http\"\ninterval = \"50ms\"\nurl = \
         \"http://127.0.0.1:{port}/\"\ntimeout_s = 20.0\n\
         values = [{{ pointer = \"/joules\", kind = \"counter\", resolution = 0.001 }}]\n"
    )
}

/// Answers on a connection until the other end closes it, or is killed.
fn answer(mut stream: TcpStream, watts: f64, began: Instant) -> std::io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        // A request ends with an empty line.
        if line?.is_empty() {
            let body = format!("{{\"joules\": {:.3}}}", 1000.0 + watts * began.elapsed().as_secs_f64());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes())?;
        }
    }
    Ok(())
}
