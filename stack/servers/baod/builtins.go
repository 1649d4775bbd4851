package baod

import (
	"maps"
	"slices"

	"github.com/openbao/openbao/audit"
	auditfile "github.com/openbao/openbao/builtin/audit/file"
	"github.com/openbao/openbao/builtin/credential/approle"
	"github.com/openbao/openbao/builtin/logical/kv"
	"github.com/openbao/openbao/builtin/logical/pki"
	"github.com/openbao/openbao/builtin/logical/transit"
	"github.com/openbao/openbao/sdk/v2/helper/consts"
	"github.com/openbao/openbao/sdk/v2/logical"
)

// Only what the product uses is compiled in: fewer engines, less to guard.
var (
	engines = map[string]logical.Factory{
		"kv": kv.VersionedKVFactory, "pki": pki.Factory, "transit": transit.Factory,
	}
	logins = map[string]logical.Factory{"approle": approle.Factory}
	audits = map[string]audit.Factory{"file": auditfile.Factory}
)

// builtins answers OpenBao's questions about its plugin catalogue from the
// tables above.
type builtins struct{}

func (builtins) of(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeSecrets:
		return engines
	case consts.PluginTypeCredential:
		return logins
	}
	return nil
}

func (b builtins) Contains(name string, kind consts.PluginType) bool {
	_, ok := b.of(kind)[name]
	return ok
}

func (b builtins) Get(name string, kind consts.PluginType) (func() (interface{}, error), bool) {
	factory, ok := b.of(kind)[name]
	return func() (interface{}, error) { return factory, nil }, ok
}

func (b builtins) Keys(kind consts.PluginType) []string {
	return slices.Collect(maps.Keys(b.of(kind)))
}

func (b builtins) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, b.Contains(name, kind)
}
