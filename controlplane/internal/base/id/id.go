// Package id gives every noun its own identifier type, so that a project id
// cannot be passed where an organisation id is meant. All are UUIDs of version
// 7: they sort by creation time, which keeps indexes compact.
package id

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Of is the identifier of a noun. The type parameter only tells nouns apart.
type Of[noun any] [16]byte

// The identifiers of the nouns.
type (
	// Org is the identifier of an organisation, which the API calls a tenant.
	Org = Of[orgNoun]
	// Project is the identifier of a project.
	Project = Of[projectNoun]
	// User is the identifier of a person.
	User = Of[userNoun]
	// ServiceAccount is the identifier of a service account.
	ServiceAccount = Of[serviceAccountNoun]
	// Token is the identifier of a bearer token.
	Token = Of[tokenNoun]
	// SSHKey is the identifier of an SSH key of a person or a project.
	SSHKey = Of[sshKeyNoun]
	// Reservation is the identifier of capacity kept for a tenant or a project.
	Reservation = Of[reservationNoun]
	// Quota is the identifier of a quota of a tenant or a project.
	Quota = Of[quotaNoun]
	// Price is the identifier of a price of a SKU.
	Price = Of[priceNoun]
	// LedgerEntry is the identifier of an entry of the ledger of a tenant.
	LedgerEntry = Of[ledgerEntryNoun]
	// Statement is the identifier of a statement of a tenant.
	Statement = Of[statementNoun]
	// Webhook is the identifier of an address that a project is told events at.
	Webhook = Of[webhookNoun]
	// WebhookDelivery is the identifier of one event that a webhook is told.
	WebhookDelivery = Of[webhookDeliveryNoun]
	// Event is the identifier of an event.
	Event = Of[eventNoun]
	// SelfCheck is the identifier of a self-check.
	SelfCheck = Of[selfCheckNoun]
	// Site is the identifier of a MAAS site.
	Site = Of[siteNoun]
	// Profile is the identifier of a profile of a site.
	Profile = Of[profileNoun]
	// PowerOverride is the identifier of BMC credentials that deviate from those of a site.
	PowerOverride = Of[powerOverrideNoun]
	// RoCEAssignment is the identifier of the address of a RoCE interface.
	RoCEAssignment = Of[roceAssignmentNoun]
	// BlobUpload is the identifier of a file that is being uploaded.
	BlobUpload = Of[blobUploadNoun]
	// SiteBundle is the identifier of a version of a bundle of a site.
	SiteBundle = Of[siteBundleNoun]
	// Node is the identifier of a node.
	Node = Of[nodeNoun]
	// NodeHold is the identifier of what keeps a node out of scheduling.
	NodeHold = Of[nodeHoldNoun]
	// NodeTask is the identifier of a task for a node.
	NodeTask = Of[nodeTaskNoun]
	// TerminalSession is the identifier of an interactive session on a node.
	TerminalSession = Of[terminalSessionNoun]
	// Job is the identifier of a job, of whichever family.
	Job = Of[jobNoun]
	// JobBatch is the identifier of jobs of one family that were asked for together.
	JobBatch = Of[jobBatchNoun]
	// Onboarding is the identifier of the onboarding of one machine.
	Onboarding = Of[onboardingNoun]
	// OnboardingBatch is the identifier of onboardings that were asked for together.
	OnboardingBatch = Of[onboardingBatchNoun]
	// Decommission is the identifier of an operation that cleans, puts aside or removes a node.
	Decommission = Of[decommissionNoun]
	// DecommissionBatch is the identifier of decommissions that were asked for together.
	DecommissionBatch = Of[decommissionBatchNoun]
	// Allocation is the identifier of what a tenant has of the fleet.
	Allocation = Of[allocationNoun]
	// Certificate is the identifier of what was issued about the cleaning of a node.
	Certificate = Of[certificateNoun]
	// AllocationGroup is the identifier of allocations that were asked for together.
	AllocationGroup = Of[allocationGroupNoun]
	// AllocationRequest is the identifier of a request for allocations that waits for capacity.
	AllocationRequest = Of[allocationRequestNoun]
	// Maintenance is the identifier of maintenance that was announced to the tenant of a node.
	Maintenance = Of[maintenanceNoun]
	// Announcement is the identifier of maintenances that were announced together.
	Announcement = Of[announcementNoun]
	// Repair is the identifier of a time in which the node of an allocation was repaired.
	Repair = Of[repairNoun]
	// Rollout is the identifier of a release of the agent on its way to many nodes.
	Rollout = Of[rolloutNoun]
	// AgentRun is the identifier of what is done to the agent of one node.
	AgentRun = Of[agentRunNoun]
	// Artifact is the identifier of something that nodes fetch.
	Artifact = Of[artifactNoun]
	// ArtifactKey is the identifier of a key whose signatures of artifacts count.
	ArtifactKey = Of[artifactKeyNoun]
	// ArtifactSource is the identifier of a place of artifacts with its login.
	ArtifactSource = Of[artifactSourceNoun]
	// Operation is the identifier of a run of an operation on nodes.
	Operation = Of[operationNoun]
	// OperationTarget is the identifier of what a run does on one node.
	OperationTarget = Of[operationTargetNoun]
	// Finding is the identifier of a disagreement that reconciliation found.
	Finding = Of[findingNoun]
	// ReconciliationRun is the identifier of one look at a site.
	ReconciliationRun = Of[reconciliationRunNoun]
)

type (
	orgNoun               struct{}
	projectNoun           struct{}
	userNoun              struct{}
	serviceAccountNoun    struct{}
	tokenNoun             struct{}
	sshKeyNoun            struct{}
	reservationNoun       struct{}
	quotaNoun             struct{}
	priceNoun             struct{}
	ledgerEntryNoun       struct{}
	statementNoun         struct{}
	webhookNoun           struct{}
	webhookDeliveryNoun   struct{}
	eventNoun             struct{}
	selfCheckNoun         struct{}
	siteNoun              struct{}
	profileNoun           struct{}
	powerOverrideNoun     struct{}
	roceAssignmentNoun    struct{}
	blobUploadNoun        struct{}
	siteBundleNoun        struct{}
	nodeNoun              struct{}
	nodeHoldNoun          struct{}
	nodeTaskNoun          struct{}
	terminalSessionNoun   struct{}
	jobNoun               struct{}
	jobBatchNoun          struct{}
	onboardingNoun        struct{}
	onboardingBatchNoun   struct{}
	decommissionNoun      struct{}
	decommissionBatchNoun struct{}
	allocationNoun        struct{}
	certificateNoun       struct{}
	allocationGroupNoun   struct{}
	allocationRequestNoun struct{}
	maintenanceNoun       struct{}
	announcementNoun      struct{}
	repairNoun            struct{}
	rolloutNoun           struct{}
	agentRunNoun          struct{}
	artifactNoun          struct{}
	artifactKeyNoun       struct{}
	artifactSourceNoun    struct{}
	operationNoun         struct{}
	operationTargetNoun   struct{}
	findingNoun           struct{}
	reconciliationRunNoun struct{}
)

// New makes an identifier: id.New[id.Project]().
func New[ID ~[16]byte]() ID {
	var u ID
	_, _ = rand.Read(u[:]) // crypto/rand never fails: the runtime aborts instead
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint32(u[0:4], uint32(ms>>16)) //nolint:gosec // the upper bits of a 48-bit time
	binary.BigEndian.PutUint16(u[4:6], uint16(ms))     //nolint:gosec // the lower 16 bits of it
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return u
}

// NewString returns a new identifier for something that is no noun, such as a
// correlation id.
func NewString() string { return New[Of[struct{}]]().String() }

var (
	errSyntax = errors.New("not a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
	errNil    = errors.New("the nil UUID names nothing: give an id, or leave it out")
)

// Parse reads the canonical form: id.Parse[id.Project](text). It refuses the
// nil UUID.
func Parse[ID ~[16]byte](s string) (ID, error) {
	var u Of[struct{}]
	err := u.UnmarshalText([]byte(s))
	return ID(u), err
}

// IsZero reports whether the identifier was never set.
func (u Of[noun]) IsZero() bool { return u == Of[noun]{} }

func (u Of[noun]) String() string {
	h := hex.EncodeToString(u[:])
	return h[0:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText writes the canonical form.
func (u Of[noun]) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads the canonical form. It refuses the nil UUID, which means
// "not set" inside the program, so no caller may send it.
func (u *Of[noun]) UnmarshalText(b []byte) error {
	out := *u
	if err := out.read(b); err != nil {
		return err
	}
	if out.IsZero() {
		return errNil
	}
	*u = out
	return nil
}

// UnmarshalJSON reads what the product itself has stored in rows and workflow
// histories, where the nil UUID may stand for an id that was not set. In a
// request body, the pattern of the schema refuses it before.
func (u *Of[noun]) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil || text == nil {
		return err
	}
	return u.read([]byte(*text))
}

func (u *Of[noun]) read(b []byte) error {
	if len(b) != 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return errSyntax
	}
	var digits [32]byte
	n := 0
	for i, c := range b {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		digits[n] = c
		n++
	}
	var out Of[noun]
	if _, err := hex.Decode(out[:], digits[:]); err != nil {
		return errSyntax
	}
	*u = out
	return nil
}

// Scan reads a database value. NULL is the zero identifier.
func (u *Of[noun]) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*u = Of[noun]{}
		return nil
	case string:
		return u.read([]byte(v))
	case []byte:
		return u.read(v)
	case [16]byte:
		*u = v
		return nil
	default:
		return fmt.Errorf("scan id: cannot read %T", src)
	}
}

// Value writes a database value. The zero identifier becomes NULL, which a
// required column refuses.
func (u Of[noun]) Value() (driver.Value, error) {
	if u.IsZero() {
		return nil, nil //nolint:nilnil // this is how NULL is spelled
	}
	return u.String(), nil
}
