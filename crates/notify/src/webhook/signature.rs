//! By what a receiver knows that a message is ours, and of now: `t=UNIX,v1=HEX`.
//!
//! `HEX` is HMAC-SHA256 with the secret, of the seconds `UNIX` in decimal digits, a full stop, and the body.

use std::fmt::Write;

use ring::hmac::{Context, HMAC_SHA256, Key};

use crate::Secret;

/// Signs a body at a time, in seconds since 1970 (UTC).
pub(super) fn sign(secret: &Secret, now: u64, body: &[u8]) -> String {
    let key = Key::new(HMAC_SHA256, secret.expose().as_bytes());
    let mut context = Context::with_key(&key);
    context.update(format!("{now}.").as_bytes());
    context.update(body);
    let mut signature = format!("t={now},v1=");
    for byte in context.sign().as_ref() {
        write!(signature, "{byte:02x}").expect("a string takes it");
    }
    signature
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf '1795000000.{"version":1}' | openssl dgst -sha256 -hmac 's3cret'`
    #[test]
    fn a_signature_is_as_documented() {
        let secret = Secret::new("s3cret".to_owned());
        assert_eq!(
            sign(&secret, 1_795_000_000, br#"{"version":1}"#),
            "t=1795000000,v1=0c4e1552881c9dec6362727676cd14b076c959201042522f8b6859fe22c70e30"
        );
    }
}
