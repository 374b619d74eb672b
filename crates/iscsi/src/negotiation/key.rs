//! The keys of RFC 7143 12 and 13.

macro_rules! keys {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)+) => {
        /// A key that this implementation knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[$meta])* $variant,)+
        }

        impl Key {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The key's name in text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The key of this name, in this case: key names are case-sensitive (RFC 7143 6.1).
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

keys! {
    /// RFC 7143 12.1.
    AuthMethod = "AuthMethod",
    /// RFC 7143 12.1.3.
    ChapAlgorithm = "CHAP_A",
    /// RFC 7143 12.1.3.
    ChapIdentifier = "CHAP_I",
    /// RFC 7143 12.1.3.
    ChapChallenge = "CHAP_C",
    /// RFC 7143 12.1.3.
    ChapName = "CHAP_N",
    /// RFC 7143 12.1.3.
    ChapResponse = "CHAP_R",
    /// RFC 7143 13.1.
    HeaderDigest = "HeaderDigest",
    /// RFC 7143 13.1.
    DataDigest = "DataDigest",
    /// RFC 7143 13.2.
    MaxConnections = "MaxConnections",
    /// RFC 7143 13.3.
    SendTargets = "SendTargets",
    /// RFC 7143 13.4.
    TargetName = "TargetName",
    /// RFC 7143 13.5.
    InitiatorName = "InitiatorName",
    /// RFC 7143 13.6.
    TargetAlias = "TargetAlias",
    /// RFC 7143 13.7.
    InitiatorAlias = "InitiatorAlias",
    /// RFC 7143 13.8.
    TargetAddress = "TargetAddress",
    /// RFC 7143 13.9.
    TargetPortalGroupTag = "TargetPortalGroupTag",
    /// RFC 7143 13.10.
    InitialR2T = "InitialR2T",
    /// RFC 7143 13.11.
    ImmediateData = "ImmediateData",
    /// RFC 7143 13.12.
    MaxRecvDataSegmentLength = "MaxRecvDataSegmentLength",
    /// RFC 7143 13.13.
    MaxBurstLength = "MaxBurstLength",
    /// RFC 7143 13.14.
    FirstBurstLength = "FirstBurstLength",
    /// RFC 7143 13.15.
    DefaultTime2Wait = "DefaultTime2Wait",
    /// RFC 7143 13.16.
    DefaultTime2Retain = "DefaultTime2Retain",
    /// RFC 7143 13.17.
    MaxOutstandingR2T = "MaxOutstandingR2T",
    /// RFC 7143 13.18.
    DataPduInOrder = "DataPDUInOrder",
    /// RFC 7143 13.19.
    DataSequenceInOrder = "DataSequenceInOrder",
    /// RFC 7143 13.20.
    ErrorRecoveryLevel = "ErrorRecoveryLevel",
    /// RFC 7143 13.21.
    SessionType = "SessionType",
    /// RFC 7143 13.23.
    TaskReporting = "TaskReporting",
    /// RFC 7143 13.24.
    IscsiProtocolLevel = "iSCSIProtocolLevel",
    /// Obsolete, RFC 7143 13.25.
    IfMarker = "IFMarker",
    /// Obsolete, RFC 7143 13.25.
    OfMarker = "OFMarker",
    /// Obsolete, RFC 7143 13.25.
    IfMarkInt = "IFMarkInt",
    /// Obsolete, RFC 7143 13.25.
    OfMarkInt = "OFMarkInt",
    /// What the other side runs on, for people: RFC 7143 13.26.
    NodeArchitecture = "X#NodeArchitecture",
}
