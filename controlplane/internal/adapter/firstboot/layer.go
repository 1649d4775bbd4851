package firstboot

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Layer is one part of a first boot, with its own owner and version. Its files
// come first, then its users, then its commands.
type Layer struct {
	Name, Version string
	Files         []File
	Commands      [][]string // argument lists: a command is never a line for a shell
	Users         []User
	// HostKey is the only host key of the machine. It is installed before the
	// SSH server starts. At most one layer may have it.
	HostKey HostKey
	// Rescue layers run even if an earlier layer failed: they let people in to
	// see why.
	Rescue bool
}

// File is a file that only root may read. Its content always counts as secret.
type File struct {
	Path    string
	Mode    fs.FileMode
	Content redact.Secret
}

// User is an account that may become root. It has no password, only keys.
type User struct {
	Name string
	Keys []string // lines of authorized_keys
}

// HostKey is the key of an SSH server. If it is zero, the server makes its own.
type HostKey struct {
	Private redact.Secret // Ed25519, in OpenSSH's form
	Public  string        // as in a line of known_hosts
}

// IsZero reports that there is no key.
func (k HostKey) IsZero() bool { return k.Private.IsZero() && k.Public == "" }

// Our folders and files on a machine.
const (
	// Folder holds the layers until they have succeeded, their records and logs.
	Folder  = agentwire.FirstBootFolder
	scripts = "/usr/local/lib/gpuaas-firstboot"
)

var (
	layerName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	layerVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	filePath     = regexp.MustCompile(`^/[A-Za-z0-9._/@+-]{1,254}$`)
	userName     = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)
	keyForm      = regexp.MustCompile(
		`^(?:sk-)?(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521))(?:@openssh\.com)? [A-Za-z0-9+/]{40,}={0,3}(?: [ -~]*)?$`)
)

func invalid(layer, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "first_boot_invalid", "layer %s of the first boot: %s", layer,
		fmt.Sprintf(format, args...))
}

func (l Layer) check() error {
	if !layerName.MatchString(l.Name) {
		return fault.New(fault.Invalid, "first_boot_invalid", "%q is no name of a layer", l.Name).
			WithRemedy("use up to 32 lower-case letters, digits and hyphens")
	}
	if !layerVersion.MatchString(l.Version) {
		return invalid(l.Name, "%q is no version", l.Version).WithRemedy("use up to 64 letters, digits and . _ + -")
	}
	if len(l.Files)+len(l.Commands)+len(l.Users) == 0 {
		return invalid(l.Name, "it does nothing")
	}
	if err := l.HostKey.check(l.Name); err != nil {
		return err
	}
	for _, f := range l.Files {
		if err := f.check(l.Name); err != nil {
			return err
		}
	}
	for _, u := range l.Users {
		if err := u.check(l.Name); err != nil {
			return err
		}
	}
	for i, argv := range l.Commands {
		if len(argv) == 0 || argv[0] == "" {
			return invalid(l.Name, "command %d names no program", i+1)
		}
		for _, a := range argv {
			if strings.ContainsFunc(a, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }) {
				return invalid(l.Name, "command %d has an argument with control characters", i+1)
			}
		}
	}
	return nil
}

func (k HostKey) check(layer string) error {
	if k.IsZero() {
		return nil
	}
	if !strings.HasPrefix(k.Public, "ssh-ed25519 ") || !keyForm.MatchString(k.Public) {
		return invalid(layer, "the public host key is no Ed25519 key")
	}
	if !strings.HasPrefix(k.Private.Reveal(), "-----BEGIN OPENSSH PRIVATE KEY-----\n") || !printable(k.Private.Reveal()) {
		return invalid(layer, "the private host key is not in the form of OpenSSH")
	}
	return nil
}

func (f File) check(layer string) error {
	switch {
	case !filePath.MatchString(f.Path) || path.Clean(f.Path) != f.Path:
		return invalid(layer, "%q is no path of a file", f.Path)
	case f.Path == Folder || strings.HasPrefix(f.Path, Folder+"/"):
		return invalid(layer, "%s lies in the folder of the runner", f.Path)
	case f.Mode&^fs.ModePerm != 0 || f.Mode&0o022 != 0 || f.Mode&0o400 == 0:
		return invalid(layer, "%s cannot have mode %#o", f.Path,
			uint32(f.Mode)).WithRemedy("only root may write what runs at the first boot")
	}
	return nil
}

func (u User) check(layer string) error {
	switch {
	case !userName.MatchString(u.Name) || u.Name == "root":
		return invalid(layer, "%q is no name of a user",
			u.Name).WithRemedy("use up to 31 lower-case letters, digits, _ and -, and not root")
	case len(u.Keys) == 0:
		return invalid(layer, "user %s has no key", u.Name)
	}
	for i, k := range u.Keys {
		if !keyForm.MatchString(k) {
			return invalid(layer, "key %d of user %s is no line of authorized_keys", i+1,
				u.Name).WithRemedy("give type, key and comment, without options")
		}
	}
	return nil
}
