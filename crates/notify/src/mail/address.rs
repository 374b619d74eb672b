//! Mail addresses: `local@domain` as nearly all are (RFC 5321, 4.1.2: `Dot-string`, and a domain of names).
//!
//! It refuses quoted local parts, addresses in place of domains, and what is not ASCII, which not every server takes.

use crate::ReceiverError;

/// Bytes of the part before the `@` at most (RFC 5321, 4.5.3.1.1).
const LOCAL_BYTES_MAX: usize = 64;
/// Bytes of the domain at most: the whole has to fit in a path of 256 with its brackets (RFC 5321, 4.5.3.1.3).
const DOMAIN_BYTES_MAX: usize = 189;
/// Bytes of a domain's part at most (RFC 1035, 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

pub(super) fn check(address: &str) -> Result<(), ReceiverError> {
    let is_address = address.split_once('@').is_some_and(|(local, domain)| {
        local.len() <= LOCAL_BYTES_MAX
            && local.split('.').all(is_atom)
            && domain.len() <= DOMAIN_BYTES_MAX
            && domain.split('.').all(is_label)
    });
    let refuse = || ReceiverError::Address(address.chars().take(LOCAL_BYTES_MAX).collect());
    is_address.then_some(()).ok_or_else(refuse)
}

fn is_atom(text: &str) -> bool {
    let is_text = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_text)
}

fn is_label(text: &str) -> bool {
    let is_text = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_long = text.len() > LABEL_BYTES_MAX;
    !text.is_empty()
        && !is_long
        && text.bytes().all(is_text)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_what_is_none() {
        let local = "l".repeat(LOCAL_BYTES_MAX);
        for address in [
            "root@localhost",
            "first.last+holdfast@mail.example.com",
            "o'neill@xn--bcher-kva.example",
            &format!("{local}@example.com"),
        ] {
            assert_eq!(check(address), Ok(()));
        }
        for address in [
            "",
            "ops",
            "@example.com",
            "ops@",
            "a@b@c",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a@b..c",
            "a@.b",
            "a@-b",
            "a@b-",
            "a b@c",
            "<a@b>",
            "Ops <a@b>",
            "a@b, c@d",
            "a@b\r\nBcc: c@d",
            "a\n@b",
            "a\0@b",
            "\"a b\"@c",
            "ä@b",
            "a@ä",
            "a@[192.0.2.1]",
            &format!("l{local}@example.com"),
            &format!("a@{}", "b".repeat(LABEL_BYTES_MAX + 1)),
            &format!("a@b{}", ".b".repeat(DOMAIN_BYTES_MAX / 2 + 1)),
        ] {
            let refused = matches!(check(address), Err(ReceiverError::Address(_)));
            assert!(refused, "{address:?}");
        }
    }
}
