//! What the built-in alarms of the same meaning go by, for Prometheus: the clock, the certificates, what volumes promise, and what
//! replicas elsewhere are brought.
//!
//! It refuses to compare nodes: each tells of itself, and the rules in `docs/monitoring` see what all of them tell.
//!
//! Invariant: what is not known is not told at all, for no value would be true.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_api::documents::{Device, LocalReport};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use super::labels::DeviceLabel;
use super::{Level, Total, level};

/// A time, or how long something is, that may be unknown. It is told in seconds, and kept in milliseconds: 0 is one that is not known.
#[derive(Clone, Debug, Default)]
struct Moment(Arc<AtomicU64>);

impl Moment {
    /// Milliseconds, of a time since 1970 (UTC).
    fn set(&self, milliseconds: Option<u64>) {
        self.0.store(milliseconds.unwrap_or(0), Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / 1000.0
    }
}

impl EncodeMetric for Moment {
    fn encode(&self, mut encoder: MetricEncoder) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&self.seconds())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl TypedMetric for Moment {
    const TYPE: MetricType = MetricType::Gauge;
}

/// What a node knows of itself that alarms are about.
#[derive(Clone, Debug, Default)]
pub(super) struct Vital {
    clock: Moment,
    certificate: Moment,
    etcd_certificate: Moment,
    etcd_certificate_lifetime: Moment,
    provisioned: Level,
    brought: Total,
    latency: Family<DeviceLabel, Gauge<f64, AtomicU64>>,
}

impl Vital {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "clock_timestamp",
            "The node's clock when it answered, since 1970 (UTC)",
            Unit::Seconds,
            self.clock.clone(),
        );
        registry.register_with_unit(
            "certificate_not_after_timestamp",
            "When the first of the node's certificate and that of its authority expires, since 1970 (UTC); not told without any",
            Unit::Seconds,
            self.certificate.clone(),
        );
        registry.register_with_unit(
            "etcd_certificate_not_after_timestamp",
            "When the certificate expires that the node shows to an etcd that somebody else runs, since 1970 (UTC); not told without any",
            Unit::Seconds,
            self.etcd_certificate.clone(),
        );
        registry.register_with_unit(
            "etcd_certificate_lifetime",
            "For how long that certificate is good in all; not told without any",
            Unit::Seconds,
            self.etcd_certificate_lifetime.clone(),
        );
        registry.register_with_unit(
            "provisioned",
            "What volumes promise of the room here: the sizes of all slices of which a replica is on this node",
            Unit::Bytes,
            self.provisioned.clone(),
        );
        registry.register_with_unit(
            "sync_brought",
            "What replicas on other nodes lacked, and were brought from here",
            Unit::Bytes,
            self.brought.clone(),
        );
        registry.register_with_unit(
            "device_latency_p99",
            "What one in a hundred of a device's operations took, or longer, within the last minute; not told of one that did none",
            Unit::Seconds,
            self.latency.clone(),
        );
    }

    pub(super) fn tell(&self, report: &LocalReport) {
        let vitals = report.vitals.as_ref();
        self.clock.set(vitals.map(|it| it.clock_ms));
        self.certificate
            .set(vitals.and_then(|it| it.certificate_expires_ms));
        let to_etcd = vitals.and_then(|it| it.etcd_certificate);
        self.etcd_certificate.set(to_etcd.map(|it| it.expires_ms));
        self.etcd_certificate_lifetime
            .set(to_etcd.map(|it| it.lifetime_ms));
        self.provisioned.set(level(report.provisioned_bytes));
        let brought = self.brought.inner();
        brought.store(report.brought_bytes, Ordering::Relaxed);
        self.latency.clear();
        for (device, microseconds) in report.devices.iter().filter_map(latency) {
            let seconds = microseconds as f64 / 1e6;
            self.latency
                .get_or_create(&DeviceLabel { device })
                .set(seconds);
        }
    }
}

fn latency(device: &Device) -> Option<(u16, u64)> {
    Some((device.number, device.latency_p99_us?))
}
