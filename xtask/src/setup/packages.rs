//! The packages that hold real runtimes, where they come from, and what they unpack to.

/// One package as its registry's ordinary client fetches it.
#[derive(Debug)]
pub struct Package {
    /// What it gives, for progress lines.
    pub what: &'static str,
    /// Name in the registry.
    pub name: &'static str,
    /// Version in the registry.
    pub version: &'static str,
    /// The client that fetches it.
    pub client: Client,
    /// The file that the client writes.
    pub file: &'static str,
    /// SHA-256 of that file.
    pub sha256: &'static str,
    /// Size in megabytes, for progress lines.
    pub megabytes: u64,
    /// Where its contents go.
    pub into: Into,
}

/// Which client fetches a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// `pip download` of a wheel.
    Pip,
    /// `npm pack`.
    Npm,
}

/// Where the contents of a package go in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// A dotnet root for this framework version: the named folder of the package.
    Root { version: &'static str, folder: &'static str },
    /// An application folder.
    App {
        name: &'static str,
        folder: &'static str,
        executable: &'static str,
        arguments: &'static [&'static str],
    },
    /// An application folder that no program of its own is run from; `file` must be in it.
    Files { name: &'static str, folder: &'static str, file: &'static str },
}

/// Everything that `setup` fetches.
pub const PACKAGES: &[Package] = &[
    Package {
        what: ".NET Core 3.1.23",
        name: "dotnetcore2",
        version: "3.1.23",
        client: Client::Pip,
        file: "dotnetcore2-3.1.23-py3-none-manylinux1_x86_64.whl",
        sha256: "5f076ddc39da0c685e7de20ecb91ee81185928918ec86fbeb3bffc55dd867ab5",
        megabytes: 31,
        into: Into::Root { version: "3.1.23", folder: "dotnetcore2/bin" },
    },
    Package {
        what: ".NET Core 2.1.30 (below the support floor, for tests of the refusal)",
        name: "dotnetcore2",
        version: "2.1.23",
        client: Client::Pip,
        file: "dotnetcore2-2.1.23-py3-none-manylinux1_x86_64.whl",
        sha256: "76c9dea3ebeecfd1485e7f275072c694e856e707527b34af3fdf5f4f8f8f6461",
        megabytes: 29,
        into: Into::Root { version: "2.1.30", folder: "dotnetcore2/bin" },
    },
    Package {
        what: ".NET 8.0.30 (single-file application)",
        name: "@microsoft/sarif-multitool-linux",
        version: "5.7.0",
        client: Client::Npm,
        file: "microsoft-sarif-multitool-linux-5.7.0.tgz",
        sha256: "27d8e3e96dde578a23b7c45035b8d741fece5731e2700aa068015b8c44d1514e",
        megabytes: 44,
        into: Into::App {
            name: "sarif-multitool-5.7.0",
            folder: "package",
            executable: "Sarif.Multitool",
            arguments: &["version"],
        },
    },
    Package {
        what: ".NET 9.0.5 with ASP.NET Core (self-contained application)",
        name: "@azure/mcp-linux-x64",
        version: "0.5.0",
        client: Client::Npm,
        file: "azure-mcp-linux-x64-0.5.0.tgz",
        sha256: "93206de4023ab41c17b85bf7ec2283c08477c405e8d4227cb2627c50fa5eab81",
        megabytes: 96,
        into: Into::App {
            name: "azmcp-0.5.0",
            folder: "package",
            executable: "dist/azmcp",
            arguments: &["--version"],
        },
    },
    Package {
        what: ".NET 10 (trimmed single-file application)",
        name: "@azure/mcp-linux-x64",
        version: "2.0.5",
        client: Client::Npm,
        file: "azure-mcp-linux-x64-2.0.5.tgz",
        sha256: "59e49713045a8c78c4915a6368bfc7688e7e9032a74d1fdf6caaa24d05a4dbdb",
        megabytes: 59,
        into: Into::App {
            name: "azmcp-2.0.5",
            folder: "package",
            executable: "dist/azmcp",
            arguments: &["--version"],
        },
    },
    Package {
        what: "speedscope (the importer that our files are tested with)",
        name: "speedscope",
        version: "1.25.0",
        client: Client::Npm,
        file: "speedscope-1.25.0.tgz",
        sha256: "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03",
        megabytes: 1,
        into: Into::Files {
            name: "speedscope-1.25.0",
            folder: "package",
            file: "dist/release/index.html",
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_package_has_its_own_file_and_a_whole_digest() {
        let files: BTreeSet<&str> = PACKAGES.iter().map(|package| package.file).collect();
        assert_eq!(files.len(), PACKAGES.len());
        for package in PACKAGES {
            assert_eq!(package.sha256.len(), 64, "{}", package.file);
            assert!(
                package.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{}",
                package.file
            );
            assert!(package.file.contains(package.version), "{}", package.file);
        }
    }
}
