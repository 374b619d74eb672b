# Two commands do everything on a fresh Debian or Ubuntu machine with Rust installed:
#   make demo    build Holdfast and run a three-node cluster here
#   make test    everything that must pass
# What is missing is installed through apt-get, after saying so.

# A fresh installation of Rust is in this directory before it is in a shell's PATH.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Rust links with a C compiler.
BUILD_PACKAGES := gcc libc6-dev
# The console is built by Node, 20.19 or 22.12 at least. Debian 12 has an older one: then it comes from PyPI.
NODE_IS_NEW := $(shell node --print 'const [a, b] = process.versions.node.split(".").map(Number); \
  (a === 20 && b >= 19) || (a === 22 && b >= 12) || a > 22 ? "yes" : ""' 2>/dev/null)
BUILD_PACKAGES += $(if $(NODE_IS_NEW),,python3-venv)
# An iSCSI initiator with its conformance suite, disk image tools that speak iSCSI, a target to hold
# our own initiator against, file systems to put on volumes, loop devices, network namespaces, the
# etcd that Debian has, its client, a Prometheus to be scraped by, the compiler for the fuzzer's driver, and a browser.
TEST_PACKAGES := libiscsi-bin qemu-utils qemu-block-extra tgt e2fsprogs mount procps iproute2 \
  etcd-server etcd-client prometheus g++ chromium
# What asks the interface by its document comes from PyPI.
TEST_PACKAGES += python3-venv
# The present etcd is built from its Go modules, by whichever Go there is.
TEST_PACKAGES += $(if $(shell command -v go),,golang-go ca-certificates)
# What real Linux hosts need, in machines that are emulated, beside that: not a part of `make test`.
GUEST_PACKAGES := qemu-system-x86 mmdebstrap
# What Holdfast is measured beside, and what puts load on files: not a part of `make test` either.
BENCH_PACKAGES := tgt fio
# And Ceph, which is large. What watches disks is among what it needs, and named for the end of `install`.
CEPH_PACKAGES := ceph-mon ceph-osd ceph-common smartmontools
# Options for the demo: make demo ARGS="--nodes 5"
ARGS ?=

.PHONY: help demo test console setup-demo setup-test setup-guest setup-bench setup-ceph cargo

help:
	@echo 'make demo    install what is missing, build, run a three-node cluster here'
	@echo 'make test    install what is missing, run everything that must pass'

# A demo is worth having without its pages, where npm's registry is out of reach.
demo: setup-demo cargo
	@cargo xtask console || echo 'note: the console is missing; the demo says how it is built' >&2
	@echo 'building, which takes some minutes the first time' >&2
	@exec cargo run --quiet --release --locked -p holdfast -- demo $(ARGS)

test: setup-test cargo
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	@exec cargo xtask ci

console: setup-demo cargo
	@exec cargo xtask console

cargo:
	@command -v cargo >/dev/null || { \
	  echo 'error: Rust is not installed: see https://rustup.rs' >&2; exit 1; }

setup-demo:
	@$(call install,$(BUILD_PACKAGES))

setup-test:
	@$(call install,$(BUILD_PACKAGES) $(TEST_PACKAGES))

setup-guest:
	@$(call install,$(BUILD_PACKAGES) $(TEST_PACKAGES) $(GUEST_PACKAGES))

setup-bench:
	@$(call install,$(BUILD_PACKAGES) $(BENCH_PACKAGES))

setup-ceph:
	@$(call install,$(BUILD_PACKAGES) $(BENCH_PACKAGES) $(CEPH_PACKAGES))

# Installs those of the packages that are missing. Nothing is started: while packages are unpacked
# a policy says so, unless the machine has a policy of its own. Nor at the next start of the machine,
# when tgt's service would take the port that the demo wants, and others would run for nothing.
define install
set -e; \
if ! command -v dpkg-query >/dev/null; then \
  echo 'note: no Debian or Ubuntu; this needs what these packages hold: $(1)'; exit 0; \
fi; \
missing=; \
for package in $(1); do \
  dpkg-query --show --showformat='$${Status}' $$package 2>/dev/null \
    | grep -q 'ok installed' || missing="$$missing $$package"; \
done; \
if [ -z "$$missing" ]; then exit 0; fi; \
sudo=; \
if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
echo "Installing with $${sudo:+sudo }apt-get:$$missing"; \
if [ -n "$$sudo" ] && ! command -v sudo >/dev/null; then \
  echo "error: sudo is missing; as root: apt-get install$$missing" >&2; exit 1; \
fi; \
policy=/usr/sbin/policy-rc.d; \
if [ ! -e $$policy ]; then \
  printf '#!/bin/sh\nexit 101\n' | $$sudo tee $$policy >/dev/null; \
  $$sudo chmod 755 $$policy; \
  trap "$$sudo rm -f $$policy" EXIT; \
fi; \
$$sudo apt-get update -qq; \
$$sudo env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes --no-install-recommends -qq $$missing; \
for service in tgt:tgt etcd-server:etcd prometheus:prometheus ceph-osd:ceph-crash smartmontools:smartmontools; do \
  case $$missing in *$${service%:*}*) \
    if command -v systemctl >/dev/null; then \
      $$sudo systemctl disable --quiet $${service#*:}; \
    fi;; \
  esac; \
done
endef
