package agentwire

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PathBaseline takes what an installation is like before any tenant was on it.
const PathBaseline = "/internal/v1/nodes/{node_id}/baseline"

// Kinds of entries of an inventory.
const (
	EntryAccount     = "account"        // name; uid, gid, home and shell
	EntryPassword    = "password"       // an account that a password opens
	EntryGroup       = "group"          // name; gid
	EntryMember      = "member"         // group:account
	EntrySetID       = "setid"          // path of a setuid or setgid file; mode, owner, digest
	EntryCapability  = "capability"     // path of a file that gives capabilities; which
	EntryACL         = "acl"            // path with a POSIX ACL; whom it names
	EntryUnit        = "unit"           // path of a unit, timer or another thing that starts programs; digest
	EntryCron        = "cron"           // path; digest
	EntryAt          = "at"             // path of a job; owner and digest
	EntryKey         = "authorized_key" // path and digest of one key
	EntryPreload     = "preload"        // /etc/ld.so.preload; digest
	EntryModule      = "module"         // name of a module in the kernel; its file
	EntryModuleIndex = "module_index"   // release of a kernel; digest of the list of its modules
	EntrySocket      = "socket"         // what listens; program and user
	EntrySpool       = "spool"          // path in a folder that everybody may write to; owner
	EntryForeign     = "foreign_file"   // path of a file of an id that only tenants have; owner
	EntryAgent       = "agent"          // path of a file of the agent; digest
)

// EntryKinds are all kinds, in the order in which they are looked at.
var EntryKinds = []string{
	EntryAccount, EntryPassword, EntryGroup, EntryMember, EntryKey, EntryUnit, EntryCron, EntryAt, EntryPreload,
	EntryModule, EntryModuleIndex,
	EntrySocket, EntrySpool, EntryAgent, EntrySetID, EntryCapability, EntryACL, EntryForeign,
}

// LaterPlaces are files and folders that came to be part of inventories after the
// first release that took them. Inventory.Covers says which of them one looked at.
var LaterPlaces = []string{
	"/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d", "/etc/pam.conf", "/etc/pam.d", "/etc/security", "/etc/sudo.conf",
	"/etc/nsswitch.conf",
	"/etc/environment", "/etc/environment.d", "/etc/profile", "/etc/bash.bashrc", "/etc/update-motd.d", "/etc/polkit-1",
	"/etc/ld.so.conf", "/etc/modprobe.d", "/etc/sysctl.conf", "/etc/sysctl.d", "/etc/tmpfiles.d", "/etc/binfmt.d",
	"/etc/logrotate.conf", "/etc/logrotate.d", "/etc/apt/apt.conf.d", "/etc/networkd-dispatcher",
	"/etc/NetworkManager/dispatcher.d",
	"/var/lib/cloud/scripts", "/etc/cloud", "/var/lib/systemd/linger", "/etc/systemd/system.conf",
	"/etc/systemd/system.conf.d", "/etc/systemd/user.conf", "/etc/systemd/user.conf.d", "/usr/lib/udev/rules.d",
	"/usr/lib/tmpfiles.d", "/etc/rsyslog.conf", "/etc/rsyslog.d", "/etc/initramfs-tools", "/etc/kernel",
	"/etc/network/if-up.d", "/etc/apt/apt.conf",
}

// Bounds of an inventory: several times what an installation has.
const (
	MaxEntries      = 4000
	MaxEntryText    = 512 // of a name or value
	MaxInventory    = 384 << 10
	MaxAmendments   = 32
	baselineDomain  = "gpuaas-baseline-v1"
	amendmentDomain = "gpuaas-baseline-amendment-v1"
)

// Entry is one thing of an installation that a tenant might have added or
// changed. Two entries of a kind and name are the same when their values are.
type Entry struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Value string `json:"value"`
	// Packaged says that an installed package of the system brought exactly this.
	Packaged bool `json:"packaged,omitempty"`
}

// Inventory is what an installation is like.
type Inventory struct {
	// Installation tells one installation of a machine from the next; empty: the
	// machine has nothing to tell it by.
	Installation string    `json:"installation"`
	TakenAt      time.Time `json:"taken_at"`
	Entries      []Entry   `json:"entries"`
	// Covers are those of LaterPlaces that were looked at; agents of before name none.
	Covers []string `json:"covers,omitempty"`
	// Unseen is what could not be looked at, and why; nothing is known about it.
	Unseen []string `json:"unseen"`
}

// Validate says what is wrong with an inventory that has the right form.
func (i Inventory) Validate() error {
	if len(i.Entries) > MaxEntries || len(i.Unseen) > MaxEntries {
		return fmt.Errorf("an inventory has at most %d entries", MaxEntries)
	}
	if len(i.Installation) > 128 || i.TakenAt.IsZero() {
		return errors.New("an inventory says of which installation it is, and when it was taken")
	}
	if len(i.Covers) > MaxEntries {
		return fmt.Errorf("an inventory covers at most %d places", MaxEntries)
	}
	for name, texts := range map[string][]string{"unseen": i.Unseen, "covers": i.Covers} {
		for _, text := range texts {
			if err := limit(name, text, MaxEntryText); err != nil {
				return err
			}
		}
	}
	return validEntries(i.Entries)
}

func validEntries(entries []Entry) error {
	for _, e := range entries {
		if !slices.Contains(EntryKinds, e.Kind) {
			return fmt.Errorf("%.40q is no kind of entry", e.Kind)
		}
		if e.Name == "" || len(e.Name) > MaxEntryText || len(e.Value) > MaxEntryText {
			return fmt.Errorf("name and value of an entry have at most %d characters, and a name has one", MaxEntryText)
		}
		if strings.ContainsRune(e.Name+e.Value, 0) {
			return errors.New("an entry holds a NUL character")
		}
	}
	return nil
}

// BaselineRequest hands over what an installation is like before any tenant was
// on it, signed by the key of the node.
type BaselineRequest struct {
	// Inventory is the JSON of an Inventory: what was signed is its bytes.
	Inventory []byte `json:"inventory"`
	Signature []byte `json:"signature"`
}

// Outcomes of handing a baseline over.
const (
	BaselineKept   = "kept"
	BaselineClosed = "closed" // a tenant may have been here already; Reason says more
)

// BaselineResponse says what became of a baseline.
type BaselineResponse struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

// What a validation was compared with.
const (
	ComparedWithBaseline = "present" // the baseline of this installation
	BaselineMissing      = "missing" // there is none: only what tenants leave by themselves was looked for
)

// Amendment is what a task of the control plane changed of an installation,
// signed by the key of the node together with the id of the task.
type Amendment struct {
	Entries   []Entry `json:"entries"`
	Signature []byte  `json:"signature"`
	// Serial is of the certificate whose key signed it, as the control plane saw
	// it: no part of what is sent.
	Serial string `json:"-"`
}

// Validate says why a task of a type cannot have changed this.
func (a Amendment) Validate(taskType string) error {
	if len(a.Entries) > MaxAmendments {
		return fmt.Errorf("a task amends at most %d entries", MaxAmendments)
	}
	spec, _ := Lookup(taskType) // a type that nobody knows amends nothing
	for _, e := range a.Entries {
		if !slices.ContainsFunc(spec.Amends,
			func(may Entry) bool { return may.Kind == e.Kind && (e.Name == may.Name || isIn(e.Name, may.Name)) }) {
			return fmt.Errorf("a task of type %s does not change the %s %.100q", taskType, e.Kind, e.Name)
		}
	}
	return validEntries(a.Entries)
}

func isIn(name, folder string) bool {
	return strings.HasSuffix(folder, "/") && strings.HasPrefix(name, folder)
}

// SignBaseline signs an inventory of a node.
func SignBaseline(key *ecdsa.PrivateKey, node string, inventory []byte) ([]byte, error) {
	return sign(key, baselineDomain, node, inventory)
}

// VerifyBaseline says whether the key of a node signed this inventory of it.
func VerifyBaseline(key any, node string, inventory, signature []byte) error {
	return verify(key, signature, baselineDomain, node, inventory)
}

// SignAmendment signs what a task changed.
func SignAmendment(key *ecdsa.PrivateKey, node, task string, entries []Entry) ([]byte, error) {
	return sign(key, amendmentDomain, node+"\n"+task, entriesText(entries))
}

// VerifyAmendment says whether the key of a node signed what a task changed.
func VerifyAmendment(key any, node, task string, a Amendment) error {
	return verify(key, a.Signature, amendmentDomain, node+"\n"+task, entriesText(a.Entries))
}

func entriesText(entries []Entry) []byte {
	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&text, "%q %q %q %t\n", e.Kind, e.Name, e.Value, e.Packaged)
	}
	return []byte(text.String())
}

func signedBytes(domain, whose string, content []byte) []byte {
	inner := sha256.Sum256(content)
	outer := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%x\n", domain, whose, inner))
	return outer[:]
}

func sign(key *ecdsa.PrivateKey, domain, whose string, content []byte) ([]byte, error) {
	signature, err := ecdsa.SignASN1(rand.Reader, key, signedBytes(domain, whose, content))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return signature, nil
}

func verify(key any, signature []byte, domain, whose string, content []byte) error {
	public, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return errors.New("the key of the node is not an ECDSA key")
	}
	if !ecdsa.VerifyASN1(public, signedBytes(domain, whose, content), signature) {
		return errors.New("the signature is not one of the key of the node")
	}
	return nil
}
