package rack

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// cloudConfig is the part of cloud-init's payload that a process machine
// carries out. The rest is for real machines.
type cloudConfig struct {
	SSHKeys struct {
		Private string `yaml:"ed25519_private"`
	} `yaml:"ssh_keys"`
	WriteFiles []writtenFile `yaml:"write_files"`
	RunCmd     []yaml.Node   `yaml:"runcmd"`
}

type writtenFile struct {
	Path        string `yaml:"path"`
	Content     string `yaml:"content"`
	Permissions string `yaml:"permissions"`
	Encoding    string `yaml:"encoding"`
}

func parseCloudConfig(payload []byte) (cloudConfig, error) {
	var c cloudConfig
	if !strings.HasPrefix(string(payload), "#cloud-config") {
		return c,
			errors.New("read payload of machine: it is no #cloud-config, and a process machine carries out nothing else")
	}
	if err := yaml.Unmarshal(payload, &c); err != nil {
		return c, fmt.Errorf("read payload of machine: %w", err)
	}
	return c, nil
}

func (f writtenFile) bytes() ([]byte, error) {
	switch f.Encoding {
	case "", "text/plain":
		return []byte(f.Content), nil
	case "b64", "base64":
		content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), ""))
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", f.Path, err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("decode %s: encoding %q is not known to process machines", f.Path, f.Encoding)
}

func (f writtenFile) mode() (fs.FileMode, error) {
	if f.Permissions == "" {
		return 0o644, nil
	}
	bits, err := strconv.ParseUint(strings.TrimPrefix(f.Permissions, "0o"), 8, 12)
	if err != nil {
		return 0, fmt.Errorf("read permissions of %s: %w", f.Path, err)
	}
	return fs.FileMode(bits), nil
}

// writeBelow writes a file of a machine. The path cannot leave the root,
// neither by dots nor by a link.
func writeBelow(root, file string, mode fs.FileMode, content []byte) error {
	top, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("open disk of machine: %w", err)
	}
	defer top.Close()
	name := strings.TrimPrefix(path.Clean("/"+file), "/")
	err = top.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = top.RemoveAll(name)
	}
	if err == nil {
		err = top.WriteFile(name, content, mode)
	}
	if err == nil {
		err = top.Chmod(name, mode) // whatever the umask is
	}
	if err != nil {
		return fmt.Errorf("write %s on machine: %w", file, err)
	}
	return nil
}
