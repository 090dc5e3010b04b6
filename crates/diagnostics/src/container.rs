use std::fmt;

/// The container that a process is in, as its control group names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Who made it: `docker`, `containerd`, `cri-o`, `podman`; `container` where that is not known.
    pub engine: &'static str,
    /// Its id, 64 hexadecimal digits; engines show the first twelve.
    pub id: String,
}

impl Container {
    /// The beginning of the id, as engines show it.
    pub fn short_id(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.engine, self.short_id())
    }
}

/// The container of a process; `None` if it is in none, or its control group does not say.
pub fn container(pid: u32) -> Option<Container> {
    #[cfg(target_os = "linux")]
    {
        of_groups(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        None
    }
}

/// From the lines of `/proc/<pid>/cgroup`: number, controllers and path, separated by colons.
#[cfg(any(target_os = "linux", test))]
fn of_groups(text: &str) -> Option<Container> {
    text.lines().find_map(|line| of_path(line.splitn(3, ':').nth(2)?))
}

#[cfg(any(target_os = "linux", test))]
fn of_path(path: &str) -> Option<Container> {
    let mut kubernetes = false;
    for part in path.split('/') {
        kubernetes |= part.starts_with("kubepods");
        let name = part.strip_suffix(".scope").unwrap_or(part);
        // `kubepods-…:cri-containerd:<id>` is how containerd writes it for systemd.
        let name = name.rsplit(':').next().unwrap_or(name);
        let (prefix, id) = name.rsplit_once('-').unwrap_or(("", name));
        if id.len() != 64 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            continue;
        }
        let engine = match prefix {
            "docker" => "docker",
            "cri-containerd" => "containerd",
            "crio" => "cri-o",
            "libpod" => "podman",
            _ if path.contains("/docker/") => "docker",
            _ if path.contains("cri-containerd") || kubernetes => "containerd",
            _ => "container",
        };
        return Some(Container { engine, id: id.to_owned() });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_name_containers() {
        let id = "0123456789abcdef".repeat(4);
        for (path, engine) in [
            (format!("0::/system.slice/docker-{id}.scope"), Some("docker")),
            (format!("12:cpu,cpuacct:/docker/{id}"), Some("docker")),
            (
                format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
                Some("containerd"),
            ),
            (format!("0::/kubepods/burstable/pod1/{id}"), Some("containerd")),
            (format!("0::/machine.slice/libpod-{id}.scope/container"), Some("podman")),
            (format!("0::/kubepods.slice/crio-{id}.scope"), Some("cri-o")),
            ("0::/user.slice/user-1000.slice/session-2.scope".to_owned(), None),
            ("0::/".to_owned(), None),
            (String::new(), None),
        ] {
            let found = of_groups(&path);
            assert_eq!(found.as_ref().map(|found| found.engine), engine, "{path}");
            assert!(found.is_none_or(|found| found.id == id && found.short_id() == &id[..12]));
        }
    }
}
