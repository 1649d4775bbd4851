package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// memory is what a lab stores beside the state of its region.
type memory struct {
	Listen         string `json:"listen"` // of MAAS
	Proxy          string `json:"proxy"`
	DeployUser     string `json:"deploy_user"`
	DeployPassword string `json:"deploy_password"`
}

func memoryFile(folder string) string { return filepath.Join(folder, "memory.json") }

// readMemory is empty for a lab that is opened for the first time.
func readMemory(folder string) (memory, error) {
	var m memory
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return m, fmt.Errorf("make folder of the lab: %w", err)
	}
	content, err := os.ReadFile(memoryFile(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read memory of the lab: %w", err)
	}
	return m, nil
}

func (l *Lab) remember(folder string) error {
	listen := strings.TrimSuffix(strings.TrimPrefix(l.URL, "http://"), "/MAAS")
	return writePrivate(memoryFile(folder), memory{
		Listen: listen, Proxy: l.proxy.address(), DeployUser: l.DeployUser,
		DeployPassword: l.DeployPassword,
	})
}

// Record is what people and programs need to use a lab. It holds secrets.
type Record struct {
	Kind           Kind      `json:"kind"`
	URL            string    `json:"maas_url"`
	Token          string    `json:"maas_token"`
	ControlURL     string    `json:"control_url"`
	SSHProxy       string    `json:"ssh_proxy"`
	DeployUser     string    `json:"deploy_user"`
	DeployPassword string    `json:"deploy_password"`
	DeployIface    string    `json:"deploy_ssh_iface"`
	BMCUser        string    `json:"bmc_user"`
	BMCPassword    string    `json:"bmc_password"`
	Image          string    `json:"image"`
	Machines       []Machine `json:"machines"`
}

// Machine is a server as an operator orders it.
type Machine struct {
	Hostname string `json:"hostname"`
	IPMI     string `json:"ipmi_ip"`
}

// Record describes the lab.
func (l *Lab) Record() Record {
	r := Record{
		Kind: l.Kind, URL: l.URL, Token: l.Token, ControlURL: l.ControlURL, SSHProxy: l.SSHProxy,
		DeployUser: l.DeployUser, DeployPassword: l.DeployPassword, DeployIface: PXEIface,
		BMCUser: BMCUser, BMCPassword: BMCPassword, Image: Image, Machines: []Machine{},
	}
	for _, m := range l.Overview() {
		r.Machines = append(r.Machines, Machine{m.Hostname, m.BMC})
	}
	return r
}

// RecordFile is where the record of a state folder is.
func RecordFile(state string) string { return filepath.Join(state, "lab.json") }

// Save writes the record for its owner alone.
func (r Record) Save(file string) error { return writePrivate(file, r) }

// ReadRecord reads what Save wrote.
func ReadRecord(file string) (Record, error) {
	var r Record
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read record of the lab: %w", err)
	}
	return r, nil
}

// writePrivate replaces a file in one step.
func writePrivate(file string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(file+".new", append(content, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write %s of the lab: %w", filepath.Base(file), err)
	}
	return nil
}
