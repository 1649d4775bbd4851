package agentwire

import (
	"encoding/json"
	"slices"
	"time"
)

// The task types.
const (
	TypeHeartbeatCheck  = "node.heartbeat_check"
	TypeDrain           = "node.drain"
	TypeUninstall       = "node.uninstall"
	TypeHWSyncReseed    = "node.hw_sync_reseed"
	TypeLoginLock       = "node.login_lock"
	TypeStorageCleanup  = "node.storage_cleanup"
	TypeGPUScrub        = "node.gpu_scrub"
	TypeValidateClean   = "node.validate_clean"
	TypeSelfUpdate      = "node.self_update"
	TypeUpdateVerifiers = "node.update_verifiers"
	TypeProvisionUser   = "allocation.provision_user"
	TypeDeprovisionUser = "allocation.deprovision_user"
	TypeRevokeUser      = "allocation.revoke_user" // older name of the same task
	TypeHealthProbe     = "diag.health_probe"
	TypeTerminalOpen    = "terminal.open"
	TypeTerminalClose   = "terminal.close"
)

// Class says which tasks of one node may run at the same time.
type Class string

// The classes.
const (
	// ClassExclusive changes the node as a whole: one at a time, and never
	// beside a task of ClassUser.
	ClassExclusive Class = "exclusive"
	// ClassUser changes accounts: one at a time.
	ClassUser Class = "user"
	// ClassConcurrent only looks, or is safe beside anything.
	ClassConcurrent Class = "concurrent"
)

// Lease is how long a task may go without a sign of life of the agent.
const Lease = time.Minute

// Params are the parameters of one task type.
type Params interface {
	// Validate says what is wrong with values of the right form.
	Validate() error
}

// Spec is one entry of the catalog.
type Spec struct {
	Type  string
	Title string
	// Destroys says what no other task can bring back. If it is empty, nothing
	// is destroyed. Whoever asks for the task is told, and confirms.
	Destroys string
	Class    Class
	// Window is how long one attempt may take, from dispatch to result.
	Window time.Duration
	// Patience is how long the task may wait for its node.
	Patience time.Duration
	// Attempts is how often it is handed out if the node falls silent.
	Attempts  int
	newParams func() Params
	newOutput func() any
}

const accountRemoved = "The account of the allocation is removed from the node with what runs under it. Its tenant " +
	"is cut off."

var catalog = []Spec{
	{
		TypeHeartbeatCheck, "answer, with the state of the agent", "", ClassConcurrent, time.Minute, 5 * time.Minute, 1,
		mk[HeartbeatParams], out[HeartbeatOutput],
	},
	{
		TypeDrain, "close sessions, revoke users, refuse new ones",
		"Terminal sessions on the node are closed and new ones refused; with revoke_users the accounts of its allocations " +
			"are removed too. Tenants who work there are cut off.",
		ClassExclusive, 15 * time.Minute, time.Hour, 3, mk[DrainParams], out[DrainOutput],
	},
	{
		TypeUninstall, "remove the agent from the machine",
		"The agent and its identity are removed from the machine. The node falls silent, and comes back only when it is " +
			"bootstrapped again or reimaged.",
		ClassExclusive, 15 * time.Minute, time.Hour, 3, mk[UninstallParams], out[UninstallOutput],
	},
	{
		TypeHWSyncReseed, "set up MAAS hardware sync anew", "", ClassExclusive, 15 * time.Minute, time.Hour, 3,
		mk[HWSyncParams], out[HWSyncOutput],
	},
	{
		TypeLoginLock, "lock the account that the machine was set up by",
		"The account loses its keys, its password and its rule for sudo, and whoever is logged in by it is thrown out.",
		ClassUser, 5 * time.Minute, time.Hour, 3, mk[LoginLockParams], out[LoginLockOutput],
	},
	{
		TypeStorageCleanup, "remove what tenants left on disks and mounts",
		"What tenants left on disks and mounts is deleted for good, of those who are there now as well.",
		ClassExclusive, 12 * time.Hour, time.Hour, 3, mk[StorageCleanupParams], out[StorageCleanupOutput],
	},
	{
		TypeGPUScrub, "overwrite and verify GPU memory, reset GPUs",
		"GPU memory is overwritten, and the GPUs are reset if the parameters say so. Whatever runs on them ends.",
		ClassExclusive, 30 * time.Minute, time.Hour, 3, mk[GPUScrubParams], out[GPUScrubOutput],
	},
	{
		TypeValidateClean, "look for anything a tenant left behind", "", ClassExclusive, 15 * time.Minute, time.Hour, 3,
		mk[ValidateCleanParams], out[ValidateCleanOutput],
	},
	{
		TypeSelfUpdate, "install another version of the agent, or go back",
		"The agent is replaced and starts anew. A version that does not run is taken back by itself.",
		ClassExclusive, 15 * time.Minute, time.Hour, 3, mk[SelfUpdateParams], out[SelfUpdateOutput],
	},
	{
		TypeUpdateVerifiers, "use another set of task verifiers", "", ClassConcurrent, 5 * time.Minute, 24 * time.Hour, 5,
		mk[UpdateVerifiersParams], out[UpdateVerifiersOutput],
	},
	{
		TypeProvisionUser, "create the account of an allocation", "", ClassUser, 15 * time.Minute, time.Hour, 3,
		mk[ProvisionUserParams], out[ProvisionUserOutput],
	},
	{
		TypeDeprovisionUser, "remove the account of an allocation", accountRemoved,
		ClassUser, 15 * time.Minute, time.Hour, 3, mk[DeprovisionUserParams], out[DeprovisionUserOutput],
	},
	{
		TypeRevokeUser, "remove the account of an allocation (older name)", accountRemoved,
		ClassUser, 15 * time.Minute, time.Hour, 3, mk[DeprovisionUserParams], out[DeprovisionUserOutput],
	},
	{
		TypeHealthProbe, "look at the health of the machine", "", ClassConcurrent, 5 * time.Minute, 15 * time.Minute, 2,
		mk[HealthProbeParams], out[HealthProbeOutput],
	},
	{
		TypeTerminalOpen, "open an interactive session", "", ClassConcurrent, time.Minute, time.Minute, 1,
		mk[TerminalOpenParams], out[TerminalOpenOutput],
	},
	{
		TypeTerminalClose, "end an interactive session", "", ClassConcurrent, time.Minute, 5 * time.Minute, 3,
		mk[TerminalCloseParams], out[TerminalCloseOutput],
	},
}

func mk[P any, PP interface {
	*P
	Params
}]() Params {
	return PP(new(P))
}

func out[O any]() any { return new(O) }

// Lookup finds a task type.
func Lookup(name string) (Spec, bool) {
	i := slices.IndexFunc(catalog, func(s Spec) bool { return s.Type == name })
	if i < 0 {
		return Spec{}, false
	}
	return catalog[i], true
}

// Catalog lists all task types.
func Catalog() []Spec { return slices.Clone(catalog) }

// Decode reads parameters strictly: it refuses unknown fields, trailing data
// and values out of range. Absent parameters count as an empty object.
func (s Spec) Decode(raw json.RawMessage) (Params, error) {
	p := s.newParams()
	if err := strict(raw, p); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// DecodeOutput reads the result of a task strictly.
func (s Spec) DecodeOutput(raw json.RawMessage) (any, error) {
	o := s.newOutput()
	return o, strict(raw, o)
}
