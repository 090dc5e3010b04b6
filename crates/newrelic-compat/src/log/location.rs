//! Where the log is.

use crate::environment::{Environment, Platform};

/// The folder of the log. `home` is the agent's home folder, if it is known.
///
/// In this order: the profiler's own variable, the variable of all logs, the log folder of an Azure
/// web site, `logs` in the agent's home, the folder of all programs' data.
#[must_use]
pub fn directory(environment: &Environment, home: Option<&str>) -> String {
    if let Some(directory) = environment.log_directory() {
        return directory;
    }
    if let Some(directory) = environment.azure_web_site_logs() {
        return directory;
    }
    let platform = environment.platform();
    match (home, platform) {
        (Some(home), Platform::Unix) => join(home, "logs", platform),
        (Some(home), Platform::Windows) => join(home, "Logs", platform),
        (None, Platform::Unix) => "/New Relic/.NET Agent/Logs".to_owned(),
        (None, Platform::Windows) => {
            let data = environment.get("ProgramData").unwrap_or_default();
            join(&data, "New Relic\\.NET Agent\\Logs", platform)
        }
    }
}

/// The name of the log of a process.
#[must_use]
pub fn file_name(pid: u32) -> String {
    format!("NewRelic.Profiler.{pid}.log")
}

/// A path below a folder.
fn join(folder: &str, name: &str, platform: Platform) -> String {
    let separator = match platform {
        Platform::Unix => '/',
        Platform::Windows => '\\',
    };
    if folder.ends_with(separator) {
        format!("{folder}{name}")
    } else {
        format!("{folder}{separator}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(platform: Platform, home: Option<&str>, variables: &[(&str, &str)]) -> String {
        directory(&Environment::new(platform, variables.iter().copied()), home)
    }

    #[test]
    fn the_first_that_is_set_wins() {
        let mut variables = vec![
            ("NEW_RELIC_PROFILER_LOG_DIRECTORY", "/a"),
            ("NEWRELIC_PROFILER_LOG_DIRECTORY", "/b"),
            ("NEW_RELIC_LOG_DIRECTORY", "/c"),
            ("NEWRELIC_LOG_DIRECTORY", "/d"),
        ];
        for expected in ["/a", "/b", "/c", "/d"] {
            assert_eq!(of(Platform::Unix, Some("/home/nr"), &variables), expected);
            variables.remove(0);
        }
        assert_eq!(of(Platform::Unix, Some("/home/nr"), &[]), "/home/nr/logs");
        assert_eq!(of(Platform::Unix, Some("/home/nr/"), &[]), "/home/nr/logs");
        assert_eq!(of(Platform::Unix, None, &[]), "/New Relic/.NET Agent/Logs");
    }

    #[test]
    fn windows_has_folders_of_its_own() {
        assert_eq!(of(Platform::Windows, Some("C:\\nr"), &[]), "C:\\nr\\Logs");
        let data = [("ProgramData", "C:\\ProgramData")];
        assert_eq!(
            of(Platform::Windows, None, &data),
            "C:\\ProgramData\\New Relic\\.NET Agent\\Logs"
        );
        // An empty variable counts as none.
        let empty = [("NEW_RELIC_LOG_DIRECTORY", ""), ("NEWRELIC_LOG_DIRECTORY", "D:\\logs")];
        assert_eq!(of(Platform::Windows, Some("C:\\nr"), &empty), "D:\\logs");
    }

    #[test]
    fn azure_web_sites() {
        let site = [("HOME", "D:\\home"), ("HOME_EXPANDED", "C:\\DWASFiles\\Sites\\app")];
        assert_eq!(of(Platform::Windows, Some("C:\\nr"), &site), "D:\\home\\LogFiles\\NewRelic");
        let other = [("HOME", "D:\\home"), ("HOME_EXPANDED", "C:\\Sites\\app")];
        assert_eq!(of(Platform::Windows, Some("C:\\nr"), &other), "C:\\nr\\Logs");
        let explicit = [site[0], site[1], ("NEW_RELIC_LOG_DIRECTORY", "E:\\x")];
        assert_eq!(of(Platform::Windows, Some("C:\\nr"), &explicit), "E:\\x");
    }

    #[test]
    fn each_source_against_those_below_it() {
        const OWN: (&str, &str) = ("NEW_RELIC_PROFILER_LOG_DIRECTORY", "P");
        const OLD_OWN: (&str, &str) = ("NEWRELIC_PROFILER_LOG_DIRECTORY", "p");
        const ALL: (&str, &str) = ("NEW_RELIC_LOG_DIRECTORY", "L");
        const OLD_ALL: (&str, &str) = ("NEWRELIC_LOG_DIRECTORY", "l");
        const SITE: [(&str, &str); 2] =
            [("HOME", "D:\\home"), ("HOME_EXPANDED", "C:\\DWASFiles\\Sites\\a")];
        const DATA: (&str, &str) = ("ProgramData", "C:\\Data");
        const SITE_LOGS: &str = "D:\\home\\LogFiles\\NewRelic";
        let home = Some("H");
        for (platform, home, variables, expected) in [
            (Platform::Unix, home, &[OWN, OLD_OWN, ALL, OLD_ALL][..], "P"),
            (Platform::Unix, home, &[OWN, OLD_ALL], "P"),
            (Platform::Unix, home, &[OWN], "P"),
            (Platform::Unix, None, &[OWN], "P"),
            (Platform::Unix, home, &[OLD_OWN, ALL], "p"),
            (Platform::Unix, None, &[OLD_OWN], "p"),
            (Platform::Unix, home, &[ALL, OLD_ALL], "L"),
            (Platform::Unix, None, &[ALL], "L"),
            (Platform::Unix, home, &[OLD_ALL], "l"),
            (Platform::Unix, None, &[OLD_ALL], "l"),
            // A variable that is empty is set, and names the current folder.
            (Platform::Unix, home, &[("NEW_RELIC_LOG_DIRECTORY", ""), OLD_ALL], ""),
            (Platform::Unix, home, &[DATA], "H/logs"),
            (Platform::Unix, None, &[DATA], "/New Relic/.NET Agent/Logs"),
            (Platform::Windows, home, &[OWN, OLD_OWN, ALL, OLD_ALL, SITE[0], SITE[1], DATA], "P"),
            (Platform::Windows, home, &[OLD_OWN, ALL, SITE[0], SITE[1]], "p"),
            (Platform::Windows, home, &[ALL, OLD_ALL, SITE[0], SITE[1]], "L"),
            (Platform::Windows, None, &[OLD_ALL, SITE[0], SITE[1], DATA], "l"),
            (Platform::Windows, home, &[("NEW_RELIC_PROFILER_LOG_DIRECTORY", ""), ALL], "L"),
            (Platform::Windows, home, &[SITE[0], SITE[1], DATA], SITE_LOGS),
            (Platform::Windows, None, &[SITE[0], SITE[1], DATA], SITE_LOGS),
            // A site needs both of its variables.
            (Platform::Windows, home, &[SITE[0], DATA], "H\\Logs"),
            (Platform::Windows, home, &[SITE[1], DATA], "H\\Logs"),
            (Platform::Windows, home, &[DATA], "H\\Logs"),
            (Platform::Windows, None, &[DATA], "C:\\Data\\New Relic\\.NET Agent\\Logs"),
            (Platform::Windows, Some("C:\\nr\\"), &[], "C:\\nr\\Logs"),
        ] {
            assert_eq!(
                of(platform, home, variables),
                expected,
                "{platform:?} {home:?} {variables:?}"
            );
        }
    }

    #[test]
    fn one_file_for_each_process() {
        assert_eq!(file_name(4711), "NewRelic.Profiler.4711.log");
    }
}
