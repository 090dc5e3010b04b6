use std::net::SocketAddr;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl Peer {
    /// Whether it is a program of this machine and of the user of the server. Where the system does
    /// not say whose connection it is, everybody of this machine is taken for that user.
    pub fn is_of_own_user(&self) -> bool {
        #[cfg(target_os = "linux")]
        return user_of(self.0) == Some(rustix::process::geteuid().as_raw());
        #[cfg(not(target_os = "linux"))]
        self.0.ip().is_loopback()
    }
}

/// The user who owns the socket with this address, which is on this machine.
#[cfg(target_os = "linux")]
fn user_of(socket: SocketAddr) -> Option<u32> {
    let table = match socket {
        SocketAddr::V4(_) => "/proc/net/tcp",
        SocketAddr::V6(_) => "/proc/net/tcp6",
    };
    find(&std::fs::read_to_string(table).ok()?, socket)
}

/// The user of a socket in a table of the kernel (proc_pid_net(5)): the fields of a row are number,
/// own address, other address, state, queues, timer, retries, user.
#[cfg(target_os = "linux")]
fn find(table: &str, socket: SocketAddr) -> Option<u32> {
    let address = written(socket);
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        (fields.next()? == address).then(|| fields.nth(5)?.parse().ok()).flatten()
    })
}

/// An address as the kernel writes it: words of 32 bits in the order of this machine.
#[cfg(target_os = "linux")]
fn written(socket: SocketAddr) -> String {
    let bytes = match socket {
        SocketAddr::V4(socket) => socket.ip().octets().to_vec(),
        SocketAddr::V6(socket) => socket.ip().octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| {
        let word = word.try_into().map_or(0, u32::from_ne_bytes);
        format!("{word:08X}")
    });
    format!("{}:{:04X}", words.collect::<String>(), socket.port())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_connection_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (_server, peer) = listener.accept().unwrap();
            assert!(Peer(peer).is_of_own_user(), "{peer}");
            let other = SocketAddr::new(peer.ip(), 1);
            assert!(!Peer(other).is_of_own_user());
            drop(client);
        }
        let row = "  1: 0100007F:1F90 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  \
                   1000 0 12345 1 0";
        let found = |address: &str| find(row, address.parse().unwrap());
        #[cfg(target_endian = "little")]
        assert_eq!(found("127.0.0.1:8080"), Some(1000));
        assert_eq!(found("127.0.0.1:41394"), None);
    }
}
