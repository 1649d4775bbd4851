package rack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Kind says what the machines of a rack are.
type Kind string

// The kinds.
const (
	LXD     Kind = "lxd"
	Process Kind = "process"
)

// Options choose a rack.
type Options struct {
	Kind   Kind
	Folder string // folder for its files; the same folder is the same rack
	// AgentProgram is run by process machines whose payload installs no agent.
	AgentProgram string
	// Throwaway says that the rack need not outlive its process. If the process
	// is killed, the next one removes the rack.
	Throwaway bool
	Log       *slog.Logger
	Progress  func(detail string) // is told what takes time; may be nil
}

// Spec describes a machine.
type Spec struct {
	Name     string // within the rack
	Hostname string // empty: its name
	UserData []byte // payload of cloud-init
	// Metadata names the MAAS whose metadata service the machine asks for its
	// payload. Then UserData is not used.
	Metadata *Metadata
	// Hardware says which machine it is. If it is empty, it is derived from the
	// name.
	Hardware Hardware
}

// Hardware is what firmware and interfaces say about a machine.
type Hardware struct {
	UUID, Serial string
	MACs         []string // the first belongs to the interface it boots from
}

// made returns the hardware of a machine that nobody described. It is always
// the same for a name in a rack, as a server keeps its serial after an
// installation.
func (h Hardware) made(rack, name string) Hardware {
	if h.UUID != "" || h.Serial != "" || len(h.MACs) > 0 {
		return h
	}
	sum := sha256.Sum256([]byte(rack + "/" + name))
	return Hardware{
		UUID:   fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
		Serial: "RACK-" + strings.ToUpper(hex.EncodeToString(sum[16:21])),
		MACs:   []string{fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[21], sum[22], sum[23])},
	}
}

// firmware returns the files in which a machine reads what it is.
func (h Hardware) firmware() map[string]string {
	return map[string]string{"product_uuid": h.UUID + "\n", "product_serial": h.Serial + "\n", "chassis_serial": h.Serial +
		"\n"}
}

// Metadata is a MAAS region and the machine's key to it.
type Metadata struct {
	URL                                string
	ConsumerKey, TokenKey, TokenSecret string
}

// Machine is one machine of a rack.
type Machine interface {
	Name() string
	// Start switches the machine on. It is no error if it runs.
	Start(ctx context.Context) error
	// Booted waits until the machine is up and the payload was carried out, and
	// returns what went wrong with it.
	Booted(ctx context.Context) error
	// Running says whether the machine is switched on.
	Running(ctx context.Context) (bool, error)
	// Address returns its address as this system sees it.
	Address(ctx context.Context) (string, error)
	// Exec runs a program on the machine as root and returns its output. If the
	// program fails, the error is an *ExitError.
	Exec(ctx context.Context, stdin io.Reader, argv ...string) (string, error)
	// Push writes a file of root on the machine, and creates the folders above
	// it.
	Push(ctx context.Context, path string, mode fs.FileMode, content []byte) error
	// Stop switches the machine off. It is no error if it does not run.
	Stop(ctx context.Context) error
	// Kill cuts the power.
	Kill(ctx context.Context) error
	// Delete removes the machine and its disk.
	Delete(ctx context.Context) error
}

// Rack holds machines.
type Rack interface {
	Kind() Kind
	// HostAddress returns the address at which machines reach this system.
	HostAddress() string
	// Machine makes a machine and starts it. It does not wait for the boot.
	Machine(ctx context.Context, s Spec) (Machine, error)
	// Find returns an existing machine, or ErrNoMachine.
	Find(ctx context.Context, name string) (Machine, error)
	// Machines returns all machines, by name.
	Machines(ctx context.Context) ([]Machine, error)
	// Close stops the machines. Those that ran start again at the next Open.
	Close(ctx context.Context) error
	// Remove deletes the machines and all that was made for the rack.
	Remove(ctx context.Context) error
}

// ErrNoMachine says that a rack has no machine of that name.
var ErrNoMachine = errors.New("no such machine")

// ExitError says that a program failed on a machine.
type ExitError struct {
	Program string
	Code    int
	Output  string // its error output
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended with %d: %s", e.Program, e.Code, e.Output)
}

// Open opens a rack: a new one, or the one that the folder belongs to.
func Open(ctx context.Context, o Options) (Rack, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	folder, err := ownFolder(o.Folder)
	if err != nil {
		return nil, err
	}
	o.Folder = folder
	switch o.Kind {
	case LXD:
		return openLXD(ctx, o)
	case Process:
		return openProcess(ctx, o)
	}
	return nil, fmt.Errorf("open rack: there is no kind %q, only %s and %s", o.Kind, LXD, Process)
}

func ownFolder(path string) (string, error) {
	if path == "" {
		return "", errors.New("open rack: no folder was named")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open rack: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make folder of rack: %w", err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("open folder of rack: %w", err)
	}
	return path, nil
}

// identity tells racks of one system apart.
func identity(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return hex.EncodeToString(sum[:4])
}

// The name of a machine becomes part of a host name.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

func (s Spec) check() (Spec, error) {
	if !validName.MatchString(s.Name) {
		return s, fmt.Errorf("make machine: %q is no name: up to 40 lower-case letters, digits and hyphens", s.Name)
	}
	if s.Hostname == "" {
		s.Hostname = s.Name
	}
	return s, nil
}
