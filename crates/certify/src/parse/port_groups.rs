//! REPORT TARGET PORT GROUPS (SPC-4 6.37).

use super::{Malformed, byte, double, word};

/// One target port group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortGroup {
    /// TARGET PORT GROUP.
    pub(crate) group: u16,
    /// ASYMMETRIC ACCESS STATE.
    pub(crate) state: u8,
    /// Which states are supported: AO_SUP is bit 0.
    pub(crate) supported: u8,
    /// RELATIVE TARGET PORT IDENTIFIERs.
    pub(crate) ports: Vec<u16>,
}

impl PortGroup {
    pub(crate) const OPTIMIZED: u8 = 0x0;
    pub(crate) const NON_OPTIMIZED: u8 = 0x1;

    /// The state's name.
    pub(crate) const fn state_name(state: u8) -> &'static str {
        match state {
            0x0 => "active/optimized",
            0x1 => "active/non-optimized",
            0x2 => "standby",
            0x3 => "unavailable",
            0x4 => "logical block dependent",
            0xE => "offline",
            0xF => "transitioning",
            _ => "a state that is none",
        }
    }
}

/// All of them, by their number.
pub(crate) fn parse(data: &[u8]) -> Result<Vec<PortGroup>, Malformed> {
    const CUT: &str = "REPORT TARGET PORT GROUPS data that is shorter than it says";
    let length = double(data, 0, CUT)? as usize;
    let end = length.checked_add(4).ok_or(Malformed(CUT))?;
    let mut rest = data.get(4..end).ok_or(Malformed(CUT))?;
    let mut groups = Vec::new();
    while !rest.is_empty() {
        let count = usize::from(byte(rest, 7, CUT)?);
        let ports = rest.get(8..8 + 4 * count).ok_or(Malformed(CUT))?;
        let (ports, _) = ports.as_chunks::<4>();
        groups.push(PortGroup {
            group: word(rest, 2, CUT)?,
            state: byte(rest, 0, CUT)? & 0x0F,
            supported: byte(rest, 1, CUT)?,
            ports: ports
                .iter()
                .map(|[_, _, high, low]| u16::from_be_bytes([*high, *low]))
                .collect(),
        });
        rest = rest.get(8 + 4 * count..).unwrap_or_default();
    }
    groups.sort_by_key(|it| it.group);
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_their_ports() {
        let data = [
            0, 0, 0, 20, 0x01, 0xCF, 0, 2, 0, 2, 0, 0, // no port
            0x80, 0xCF, 0, 1, 0, 2, 0, 1, 0, 0, 0, 1,
        ];
        let groups = parse(&data).unwrap();
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].group, groups[0].state), (1, 0));
        assert_eq!(groups[0].ports, [1]);
        assert_eq!((groups[1].group, groups[1].state), (2, 1));
        assert!(parse(&data[..23]).is_err());
        assert!(parse(&[0xFF; 4]).is_err());
    }
}
