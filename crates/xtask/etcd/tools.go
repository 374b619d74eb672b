// Package etcd names what `cargo xtask etcd` builds. Modules of etcd refer to each other in a way that
// `go install` refuses, so a module that requires them is needed; it has no code of its own.
package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
