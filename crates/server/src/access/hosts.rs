use std::net::IpAddr;

/// Which names and addresses the server answers to. A page whose name was made to lead to this
/// machine (DNS rebinding) sends its own name.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Whether it listens at loopback addresses only.
    loopback: bool,
    /// Further names.
    names: Vec<String>,
}

impl Hosts {
    pub fn new(loopback: bool, names: Vec<String>) -> Self {
        Self { loopback, names }
    }

    /// Whether a header Host names this server. The port does not count: it is another one behind
    /// a tunnel or a proxy.
    pub fn allow(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match address.unwrap_or(name).parse::<IpAddr>() {
            // No name leads to an address other than by itself.
            Ok(address) => !self.loopback || address.is_loopback(),
            Err(_) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
            }
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The last part of an address in brackets is no port.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_are_refused() {
        let local = Hosts::new(true, vec!["box.example".into()]);
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]:80", "[::1]", "LocalHost:1", "BOX.example"]
        {
            assert!(local.allow(host), "{host}");
        }
        for host in ["", ":80", "10.0.0.1:80", "evil.example", "localhost.evil.example", "[::1"] {
            assert!(!local.allow(host), "{host}");
        }
        let open = Hosts::new(false, Vec::new());
        for host in ["10.0.0.1:80", "[fe80::1]:80", "localhost"] {
            assert!(open.allow(host), "{host}");
        }
        assert!(!open.allow("evil.example:80"));
    }
}
