use crate::problem::Problem;
use sha2::{Digest, Sha256};
use std::{
    fmt, io,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Cookies that are valid at the same time.
const MOST_COOKIES: usize = 64;

/// Letters of a token that cannot be guessed.
const SHORT: usize = 16;

/// The fingerprint of a secret: how long it takes to compare two of these says nothing of the
/// secrets.
type Fingerprint = [u8; 32];

fn fingerprint(secret: &str) -> Fingerprint {
    Sha256::digest(secret.as_bytes()).into()
}

/// A random secret.
fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The token of a token file: for scripts, and valid as long as the server runs.
#[derive(Clone)]
pub struct Token {
    own: Fingerprint,
    /// Whether other users can read its file.
    pub readable: bool,
    /// Whether it is so short that it could be guessed.
    pub short: bool,
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token")
    }
}

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read the token file: {0}")]
    Io(#[from] io::Error),
    /// It holds nothing.
    #[error(
        "the token file is empty; write a token into it, such as that of `openssl rand -hex 32`"
    )]
    Empty,
    /// No header can hold it.
    #[error("the token has spaces or characters that are not ASCII; use letters and digits")]
    Characters,
    /// Others can change it.
    #[error("other users can change the token file; run `chmod 600` on it")]
    Open,
}

impl Token {
    /// Reads a token file: one line.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mode = mode(path)?;
        if mode & 0o022 != 0 {
            return Err(TokenError::Open);
        }
        let text = std::fs::read_to_string(path)?;
        match text.trim() {
            "" => Err(TokenError::Empty),
            token if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                let (readable, short) = (mode & 0o004 != 0, token.len() < SHORT);
                Ok(Self { own: fingerprint(token), readable, short })
            }
            _ => Err(TokenError::Characters),
        }
    }
}

/// The permissions of a file, where there are such.
fn mode(path: &Path) -> io::Result<u32> {
    let found = std::fs::metadata(path)?;
    #[cfg(unix)]
    return Ok(std::os::unix::fs::PermissionsExt::mode(&found.permissions()));
    #[cfg(not(unix))]
    Ok(if found.is_file() { 0o600 } else { 0 })
}

/// All secrets that let somebody in.
pub struct Secrets {
    /// The token in the printed address, until it is used.
    once: Mutex<Option<Fingerprint>>,
    /// The token of the token file.
    token: Option<Token>,
    /// Cookies, and until when they are valid.
    cookies: Mutex<Vec<(Fingerprint, Instant)>>,
}

impl Secrets {
    /// How long a cookie is valid.
    pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);

    /// With a new one-time token, which is the second value.
    pub fn new(token: Option<Token>) -> io::Result<(Self, String)> {
        let once = random()?;
        let secrets = Self {
            once: Mutex::new(Some(fingerprint(&once))),
            token,
            cookies: Mutex::new(Vec::new()),
        };
        Ok((secrets, once))
    }

    /// A new cookie for the one-time token; `None` if it is wrong or was used.
    pub fn exchange(&self, token: &str) -> Result<Option<String>, Problem> {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        if *once != Some(fingerprint(token)) {
            return Ok(None);
        }
        let cookie = random().map_err(|error| Problem::internal(error.to_string()))?;
        *once = None;
        self.add(&cookie, Instant::now() + Self::LIFETIME);
        Ok(Some(cookie))
    }

    fn add(&self, cookie: &str, until: Instant) {
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        cookies.retain(|(_, until)| *until > now);
        if cookies.len() >= MOST_COOKIES {
            cookies.remove(0);
        }
        cookies.push((fingerprint(cookie), until));
    }

    /// Whether this is the token of the token file.
    pub fn is_token(&self, token: &str) -> bool {
        self.token.as_ref().is_some_and(|token_file| token_file.own == fingerprint(token))
    }

    /// Whether this is a cookie that is valid.
    pub fn is_cookie(&self, cookie: &str) -> bool {
        let (cookie, now) = (fingerprint(cookie), Instant::now());
        let cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        cookies.iter().any(|(own, until)| *own == cookie && *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_exchanged_once_and_cookies_expire() {
        let (secrets, once) = Secrets::new(None).unwrap();
        assert!(secrets.exchange("wrong").unwrap().is_none());
        let cookie = secrets.exchange(&once).unwrap().unwrap();
        assert!(secrets.exchange(&once).unwrap().is_none());
        assert!(secrets.is_cookie(&cookie) && !secrets.is_cookie(&once));
        assert!(!secrets.is_token("") && !secrets.is_token(&once));
        secrets.add("old", Instant::now());
        assert!(!secrets.is_cookie("old"));
        for number in 0..MOST_COOKIES {
            secrets.add(&number.to_string(), Instant::now() + Secrets::LIFETIME);
        }
        assert!(!secrets.is_cookie(&cookie) && secrets.is_cookie("0"));
    }

    #[cfg(unix)]
    #[test]
    fn token_files_are_checked() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        let (secrets, _) = Secrets::new(Some(read("abc\n", 0o600).unwrap())).unwrap();
        assert!(secrets.is_token("abc") && !secrets.is_token("abcd"));
        assert!(!read("abc", 0o440).unwrap().readable && read("abc", 0o644).unwrap().readable);
        assert!(matches!(read("abc", 0o606), Err(TokenError::Open)));
        assert!(matches!(read(" \n", 0o600), Err(TokenError::Empty)));
        assert!(matches!(read("a b", 0o600), Err(TokenError::Characters)));
        assert!(matches!(Token::read(&folder.path().join("no")), Err(TokenError::Io(_))));
    }
}
