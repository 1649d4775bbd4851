package agentwire

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	userName   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	uuidForm   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	gpuForm    = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)
	versionOK  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	keyForm    = regexp.MustCompile(
		`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com) [A-Za-z0-9+/]+={0,3}( [!-~ ]{0,200})?$`)
	sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)
	systemID  = regexp.MustCompile(`^[a-z0-9]{4,12}$`)
	interval  = regexp.MustCompile(`^[0-9]{1,6}[smh]$`)
)

// HeartbeatParams asks for nothing but an answer.
type HeartbeatParams struct{}

// Validate implements Params.
func (HeartbeatParams) Validate() error { return nil }

// DrainParams says how a node is emptied.
type DrainParams struct {
	Reason      string `json:"reason"`
	RevokeUsers bool   `json:"revoke_users"`
	// Resume ends the drain instead: new users are accepted again.
	Resume bool `json:"resume,omitempty"`
}

// Validate implements Params.
func (p DrainParams) Validate() error {
	if p.Resume && p.RevokeUsers {
		return errors.New("resume and revoke_users exclude each other")
	}
	return limit("reason", p.Reason, 500)
}

// UninstallParams says what may stay.
type UninstallParams struct {
	KeepLogs bool `json:"keep_logs"`
}

// Validate implements Params.
func (UninstallParams) Validate() error { return nil }

// HWSyncParams names the region. The machine token is a credential that the
// handler asks for.
type HWSyncParams struct {
	MAASURL  string `json:"maas_url"`
	SystemID string `json:"system_id"`
	Interval string `json:"interval"`
	// RunScripts is the SHA-256 of the program that the machine fetches over
	// plain HTTP and runs as root. It is signed with the task, because whoever
	// answers for the control plane must not choose that program. If it is
	// empty, the machine keeps its present digest. Older agents refuse the
	// field.
	RunScripts string `json:"run_scripts_sha256,omitempty"`
}

// Validate implements Params.
func (p HWSyncParams) Validate() error {
	u, err := url.Parse(p.MAASURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("maas_url is not an http or https address")
	}
	if !systemID.MatchString(p.SystemID) {
		return errors.New("system_id is not one of MAAS")
	}
	if !interval.MatchString(p.Interval) {
		return errors.New("interval must look like 15m")
	}
	if p.RunScripts != "" && !sha256Hex.MatchString(p.RunScripts) {
		return errors.New("run_scripts_sha256 is no SHA-256")
	}
	return nil
}

// LoginLockParams names the account with which the first boot set up the
// machine.
type LoginLockParams struct {
	Username string `json:"username"`
}

// Validate implements Params.
func (p LoginLockParams) Validate() error {
	if !userName.MatchString(p.Username) || p.Username == "root" {
		return fmt.Errorf("%q is no account that a first boot makes", p.Username)
	}
	return nil
}

// StorageCleanupParams says what to clean: local (/tmp, /var/tmp, scratch),
// weka (mounts and configuration) or all.
type StorageCleanupParams struct {
	Scope string `json:"scope"`
	// Scratch adds folders that tenants may write to; their content is removed.
	Scratch []string `json:"scratch,omitempty"`
	// Disks is empty or sanitize. sanitize erases everything on the data disks
	// mounted at /share<N> and creates their file systems again.
	Disks string `json:"disks,omitempty"`
	// MinimumLevel is the lowest level that counts, clear or purge. A disk that
	// cannot reach it is left alone. Empty means clear.
	MinimumLevel string `json:"minimum_level,omitempty"`
}

// DisksSanitize asks for the data disks to be erased.
const DisksSanitize = "sanitize"

// Levels of sanitization, as NIST SP 800-88 names them.
const (
	LevelClear = "clear"
	LevelPurge = "purge"
)

// scratchRoots are the only places below which folders may be emptied.
var scratchRoots = []string{"/scratch", "/share", "/mnt", "/local", "/data"}

// Validate implements Params.
func (p StorageCleanupParams) Validate() error {
	if !slices.Contains([]string{"local", "weka", "all"}, p.Scope) {
		return errors.New("scope must be local, weka or all")
	}
	if err := p.validateDisks(); err != nil {
		return err
	}
	if len(p.Scratch) > 32 {
		return errors.New("at most 32 scratch folders")
	}
	for _, s := range p.Scratch {
		if path.Clean(s) != s || !path.IsAbs(s) ||
			!slices.ContainsFunc(scratchRoots, func(root string) bool { return within(s, root) }) {
			return fmt.Errorf("scratch folder %q must be a clean absolute path below one of %s", s,
				strings.Join(scratchRoots, ", "))
		}
	}
	return nil
}

func (p StorageCleanupParams) validateDisks() error {
	switch {
	case p.Disks != "" && p.Disks != DisksSanitize:
		return errors.New("disks must be empty or sanitize")
	case p.Disks != "" && p.Scope == "weka":
		return errors.New("disks of the machine are not in the scope weka")
	case p.MinimumLevel != "" && p.MinimumLevel != LevelClear && p.MinimumLevel != LevelPurge:
		return errors.New("minimum_level must be empty, clear or purge")
	case p.MinimumLevel != "" && p.Disks == "":
		return errors.New("minimum_level is about disks, which are not asked for")
	}
	return nil
}

// within also accepts numbered roots such as /share3.
func within(p, root string) bool {
	rest, ok := strings.CutPrefix(p, root)
	if !ok {
		return false
	}
	rest = strings.TrimLeft(rest, "0123456789")
	return rest == "" || strings.HasPrefix(rest, "/")
}

// GPUScrubParams says which GPUs. None means all.
type GPUScrubParams struct {
	GPUs  []string `json:"gpus,omitempty"`
	Reset bool     `json:"reset"`
}

// Validate implements Params.
func (p GPUScrubParams) Validate() error {
	if len(p.GPUs) > 64 {
		return errors.New("at most 64 GPUs")
	}
	for _, g := range p.GPUs {
		if !gpuForm.MatchString(g) {
			return fmt.Errorf("%q is not the UUID of a GPU", g)
		}
	}
	return nil
}

// ValidateCleanParams names accounts that should be there.
type ValidateCleanParams struct {
	AllowedUsers []string `json:"allowed_users,omitempty"`
}

// Validate implements Params.
func (p ValidateCleanParams) Validate() error {
	if len(p.AllowedUsers) > 100 {
		return errors.New("at most 100 allowed users")
	}
	for _, u := range p.AllowedUsers {
		if !userName.MatchString(u) {
			return fmt.Errorf("%q is not a user name", u)
		}
	}
	return nil
}

// SelfUpdateParams says which package to install. The agent fetches it under
// its own identity; digest and signature say what it must be.
type SelfUpdateParams struct {
	Action        string `json:"action"` // update or rollback
	Version       string `json:"version,omitempty"`
	Digest        string `json:"digest,omitempty"`
	SizeBytes     int64  `json:"size_bytes,omitempty"`
	SignerVersion string `json:"signer_version,omitempty"`
	Signature     []byte `json:"signature,omitempty"`
}

// maxPackage limits what an agent downloads.
const maxPackage = 256 << 20

// Validate implements Params.
func (p SelfUpdateParams) Validate() error {
	switch p.Action {
	case "rollback":
		return nil
	case "update":
	default:
		return errors.New("action must be update or rollback")
	}
	if !versionOK.MatchString(p.Version) || !digestForm.MatchString(p.Digest) {
		return errors.New("an update needs a version and a digest sha256:…")
	}
	if p.SizeBytes < 1 || p.SizeBytes > maxPackage {
		return fmt.Errorf("size_bytes must be between 1 and %d", maxPackage)
	}
	if p.SignerVersion == "" || len(p.Signature) == 0 {
		return errors.New("an update needs the signature of its package")
	}
	return nil
}

// UpdateVerifiersParams carries the set to use from now on.
type UpdateVerifiersParams struct {
	Set VerifierSet `json:"set"`
}

// Validate implements Params.
func (p UpdateVerifiersParams) Validate() error { return p.Set.Validate() }

// ProvisionUserParams describes the account of an allocation.
type ProvisionUserParams struct {
	AllocationID   string   `json:"allocation_id"`
	Username       string   `json:"username"`
	UID            int      `json:"uid"`
	GID            int      `json:"gid"`
	AuthorizedKeys []string `json:"authorized_keys"`
	Sudo           bool     `json:"sudo"`
}

// MinUID is the lowest id of an allocation user: system accounts and the
// accounts of the site are below it.
const MinUID = 20000

// Validate implements Params.
func (p ProvisionUserParams) Validate() error {
	if err := account(p.AllocationID, p.Username); err != nil {
		return err
	}
	if p.UID < MinUID || p.UID > 60000 || p.GID < MinUID || p.GID > 60000 {
		return fmt.Errorf("uid and gid must be between %d and 60000", MinUID)
	}
	if len(p.AuthorizedKeys) > 100 {
		return errors.New("at most 100 keys")
	}
	for i, k := range p.AuthorizedKeys {
		if len(k) > 16<<10 || !keyForm.MatchString(k) {
			return fmt.Errorf("key %d is not an OpenSSH public key on one line", i+1)
		}
	}
	return nil
}

// DeprovisionUserParams names the account to remove.
type DeprovisionUserParams struct {
	AllocationID string `json:"allocation_id"`
	Username     string `json:"username"`
	KeepHome     bool   `json:"keep_home,omitempty"`
}

// Validate implements Params.
func (p DeprovisionUserParams) Validate() error { return account(p.AllocationID, p.Username) }

func account(allocation, user string) error {
	if !uuidForm.MatchString(allocation) {
		return errors.New("allocation_id is not a UUID")
	}
	if !userName.MatchString(user) || user == "root" {
		return fmt.Errorf("%q cannot be the user of an allocation", user)
	}
	return nil
}

// HealthProbeParams asks for all checks.
type HealthProbeParams struct{}

// Validate implements Params.
func (HealthProbeParams) Validate() error { return nil }

// TerminalOpenParams authorises one session as an allocation user.
type TerminalOpenParams struct {
	SessionID    string `json:"session_id"`
	Username     string `json:"username"`
	GatewayURL   string `json:"gateway_url"` // wss://host:port of the replica that waits for the session
	Columns      int    `json:"columns"`
	Rows         int    `json:"rows"`
	IdleSeconds  int    `json:"idle_seconds"`
	TotalSeconds int    `json:"total_seconds"`
}

// Validate implements Params.
func (p TerminalOpenParams) Validate() error {
	u, err := url.Parse(p.GatewayURL)
	switch {
	case !uuidForm.MatchString(p.SessionID):
		return errors.New("session_id is not a UUID")
	case !userName.MatchString(p.Username) || p.Username == "root":
		return fmt.Errorf("%q cannot have a session", p.Username)
	case err != nil || u.Scheme != "wss" || u.Host == "" || u.User != nil:
		return errors.New("gateway_url is not a wss address")
	case p.Columns < 1 || p.Columns > 1000 || p.Rows < 1 || p.Rows > 1000:
		return errors.New("columns and rows must be between 1 and 1000")
	case p.IdleSeconds < 1 || p.TotalSeconds < 1 || p.IdleSeconds > 86400 || p.TotalSeconds > 86400:
		return errors.New("idle_seconds and total_seconds must be between 1 and 86400")
	}
	return nil
}

// TerminalCloseParams names the session to end.
type TerminalCloseParams struct {
	SessionID string `json:"session_id"`
}

// Validate implements Params.
func (p TerminalCloseParams) Validate() error {
	if !uuidForm.MatchString(p.SessionID) {
		return errors.New("session_id is not a UUID")
	}
	return nil
}

func limit(name, value string, n int) error {
	if len(value) > n {
		return fmt.Errorf("%s has more than %d characters", name, n)
	}
	return nil
}
