use std::net::SocketAddr;

/// A connection: who is at its other end.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Address of the other end.
    pub address: SocketAddr,
    /// Address of our end.
    pub own: SocketAddr,
}

impl Peer {
    /// Whether it is a program of this machine and of the user of the server. Where the system does
    /// not say whose connection it is, everybody of this machine is taken for that user.
    pub fn is_of_own_user(&self) -> bool {
        #[cfg(target_os = "linux")]
        return user_of(self) == Some(rustix::process::geteuid().as_raw());
        #[cfg(not(target_os = "linux"))]
        self.address.ip().is_loopback()
    }
}

/// The user who owns the socket at the other end, which is on this machine.
#[cfg(target_os = "linux")]
fn user_of(peer: &Peer) -> Option<u32> {
    let table = match peer.address {
        SocketAddr::V4(_) => "/proc/net/tcp",
        SocketAddr::V6(_) => "/proc/net/tcp6",
    };
    find(&std::fs::read_to_string(table).ok()?, peer)
}

/// The user of a socket in a table of the kernel (proc_pid_net(5)): the fields of a row are number,
/// own address, other address, state, queues, timer, retries, user, timeout, inode.
///
/// Sockets of two users may have the same own address, as long as the other one differs. One that
/// is closed has inode 0, and counts as one of root's.
#[cfg(target_os = "linux")]
fn find(table: &str, peer: &Peer) -> Option<u32> {
    const ESTABLISHED: &str = "01";
    let (address, own) = (written(peer.address), written(peer.own));
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, from, to, state, _, _, _, user, _, inode, ..] = fields.as_slice() else {
            return None;
        };
        let is_it = *from == address && *to == own && *state == ESTABLISHED && *inode != "0";
        is_it.then(|| user.parse().ok()).flatten()
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
            let (server, address) = listener.accept().unwrap();
            let peer = Peer { address, own: server.local_addr().unwrap() };
            assert!(peer.is_of_own_user(), "{peer:?}");
            let other = SocketAddr::new(address.ip(), 1);
            assert!(!Peer { address: other, ..peer }.is_of_own_user());
            assert!(!Peer { own: other, ..peer }.is_of_own_user());
            drop(client);
        }
        let row = "  1: 0100007F:1F90 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  \
                   1000 0 12345 1 0";
        let found = |row: &str, address: &str, own: &str| {
            find(row, &Peer { address: address.parse().unwrap(), own: own.parse().unwrap() })
        };
        let (theirs, own) = ("127.0.0.1:8080", "127.0.0.1:41394");
        #[cfg(target_endian = "little")]
        assert_eq!(found(row, theirs, own), Some(1000));
        assert_eq!(found(row, own, theirs), None);
        // The same port, for another connection.
        assert_eq!(found(row, theirs, "127.0.0.1:41395"), None);
        assert_eq!(found(&row.replace(" 01 ", " 06 "), theirs, own), None);
        assert_eq!(found(&row.replace(" 12345 ", " 0 "), theirs, own), None);
    }
}
