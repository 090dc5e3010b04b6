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

/// A token in an address, which can be used once.
struct Once {
    own: Fingerprint,
    /// Whether it is only for programs of the user of the server: others can read it in the list of
    /// processes.
    own_user: bool,
    /// Until when it is valid; `None` if that is as long as the server runs.
    until: Option<Instant>,
}

/// All secrets that let somebody in.
pub struct Secrets {
    /// Tokens in addresses, until they are used.
    once: Mutex<Vec<Once>>,
    /// The token of the token file.
    token: Option<Token>,
    /// Cookies, and until when they are valid.
    cookies: Mutex<Vec<(Fingerprint, Instant)>>,
}

impl Secrets {
    /// How long a cookie is valid.
    pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);

    /// How long a token for a program that is started with it is valid. A person who reads the
    /// printed address may take any time.
    const START: Duration = Duration::from_secs(300);

    pub fn new(token: Option<Token>) -> Self {
        Self { once: Mutex::default(), token, cookies: Mutex::default() }
    }

    /// A new one-time token. `own_user`: it is only for programs of the user of the server.
    pub fn once(&self, own_user: bool) -> io::Result<String> {
        let token = random()?;
        let own = fingerprint(&token);
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let until = own_user.then(|| Instant::now() + Self::START);
        once.push(Once { own, own_user, until });
        Ok(token)
    }

    /// A new cookie for a one-time token; `None` if it is wrong, was used, or is for the user of
    /// the server and `is_own_user` says that it comes from somebody else.
    pub fn exchange(
        &self,
        token: &str,
        is_own_user: impl FnOnce() -> bool,
    ) -> Result<Option<String>, Problem> {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        once.retain(|once| once.until.is_none_or(|until| until > now));
        let own = fingerprint(token);
        let Some(at) = once.iter().position(|once| once.own == own) else { return Ok(None) };
        if once.get(at).is_some_and(|once| once.own_user) && !is_own_user() {
            return Ok(None);
        }
        let cookie = random().map_err(|error| Problem::internal(error.to_string()))?;
        once.remove(at);
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
        let secrets = Secrets::new(None);
        let (once, own) = (secrets.once(false).unwrap(), secrets.once(true).unwrap());
        let exchange = |token: &str, is_own| secrets.exchange(token, || is_own).unwrap();
        assert!(exchange("wrong", true).is_none());
        let cookie = exchange(&once, false).unwrap();
        assert!(exchange(&once, true).is_none());
        // Somebody else who read it does not use it up.
        assert!(exchange(&own, false).is_none());
        assert!(exchange(&own, true).is_some() && exchange(&own, true).is_none());
        // One that was not used in time is worth nothing.
        let late = secrets.once(true).unwrap();
        secrets.once.lock().unwrap()[0].until = Some(Instant::now());
        assert!(exchange(&late, true).is_none());
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
        let secrets = Secrets::new(Some(read("abc\n", 0o600).unwrap()));
        assert!(secrets.is_token("abc") && !secrets.is_token("abcd"));
        assert!(!read("abc", 0o440).unwrap().readable && read("abc", 0o644).unwrap().readable);
        assert!(matches!(read("abc", 0o606), Err(TokenError::Open)));
        assert!(matches!(read(" \n", 0o600), Err(TokenError::Empty)));
        assert!(matches!(read("a b", 0o600), Err(TokenError::Characters)));
        assert!(matches!(Token::read(&folder.path().join("no")), Err(TokenError::Io(_))));
    }
}
