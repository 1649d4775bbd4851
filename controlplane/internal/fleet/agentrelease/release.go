package agentrelease

import (
	"regexp"
	"time"

	"gpuaas/contract/agentpackage"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/blob"
)

// Release is a version of the agent that was uploaded.
type Release struct {
	agentpackage.Signed
	Programs         map[string]string // SHA-256 by name
	AddedBy          string
	CreatedAt        time.Time
	WithdrawnAt      *time.Time
	WithdrawnBy      string
	WithdrawnBecause string
	BlockedBecause   string
	Channels         []string
	Nodes            int64
}

// Version is the version of the release.
func (r Release) Version() string { return r.Statement.Version }

func ownerOf(version string) blob.Owner { return blob.Owner{Kind: "agent_release", ID: version} }

// purpose tells uploads of releases from all others.
func purpose(version string) string { return "agent_release " + version }

// Channel is a line of releases that nodes can follow.
type Channel string

// The channels that want a release. Nodes that are pinned or unassigned follow none.
const (
	Stable    Channel = "stable"
	Candidate Channel = "candidate"
)

var channels = []Channel{Stable, Candidate}

// Wanted is the release that a channel wants.
type Wanted struct {
	Channel   Channel
	Version   string // empty: none
	Previous  string
	Reason    string
	ChangedBy string
	ChangedAt time.Time
}

// Block is a version that no node is given.
type Block struct {
	Version, Reason, BlockedBy string
	BlockedAt                  time.Time
}

// Floor is the oldest version that a node may be given.
type Floor struct {
	Version, Reason, ChangedBy string
	ChangedAt                  time.Time
}

// refuses says whether a version is below the floor, or cannot be compared with it.
func (f Floor) refuses(version string) error {
	floor, set := agentpackage.ParseVersion(f.Version)
	if !set {
		return nil
	}
	v, ordered := agentpackage.ParseVersion(version)
	switch {
	case !ordered:
		return fault.New(fault.Conflict, "agent_version_unordered",
			"%.80s has no place in the order of versions, and nodes are given nothing below %s", version, f.Version).
			WithRemedy("give a release such as %s; or lower the floor: gpuaas agent release floor --none",
				f.Version)
	case v.Compare(floor) < 0:
		return fault.New(fault.Conflict, "agent_version_below_floor",
			"%.80s is older than %s, the oldest version that nodes "+
				"are given: %s", version, f.Version, f.Reason).
			WithRemedy("give a newer release; or lower the floor: gpuaas agent release floor VERSION")
	}
	return nil
}

// versionForm is that of any version of an agent, released or not.
var versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

func checkVersion(version string) error {
	if versionForm.MatchString(version) {
		return nil
	}
	return fault.New(fault.Invalid, "agent_version_invalid", "%.100q is no version of the agent", version).
		WithRemedy("a version has 1 to 64 letters, digits and . _ + -, and begins with a letter or digit")
}

const longestReason = 500

func checkReason(reason string) error {
	if reason != "" && len(reason) <= longestReason {
		return nil
	}
	return fault.New(fault.Invalid, "reason_required", "say why, in at most %d bytes", longestReason).
		WithRemedy("give a reason: whoever reads the audit log later needs it")
}

func missing(version string) error {
	return fault.New(fault.NotFound, "agent_release_not_found", "there is no release %.80s of the agent", version).
		WithRemedy("see which there are: gpuaas agent release list")
}

func withdrawn(r Release) error {
	return fault.New(fault.Conflict, "agent_release_withdrawn", "release %s of the agent was withdrawn: %s", r.Version(),
		r.WithdrawnBecause).WithRemedy("give another release; a version is not given again")
}

func blocked(version, reason string) error {
	return fault.New(fault.Conflict, "agent_version_blocked", "version %.80s of the agent is blocked: %s", version,
		reason).
		WithRemedy("give another version; or unblock it: gpuaas agent release unblock %.80s", version)
}
