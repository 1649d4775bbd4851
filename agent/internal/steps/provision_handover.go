package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gpuaas/contract/agentwire"
)

// What the tenant reads about the node lies in the tenant's home, and goes with
// it. The profile of the shell has one line that reads it.
const (
	handoverFolder = ".gpuaas"
	handoverEnv    = "allocation.env"
	handoverNote   = "message"
	profileFile    = ".profile"
	profileLine    = `[ -r "$HOME/.gpuaas/allocation.env" ] && { set -a; . "$HOME/.gpuaas/allocation.env"; set +a; ` +
		`cat "$HOME/.gpuaas/message"; } # what was handed over`
	maxProfile = 64 << 10
)

// handed is what the files about the node say, by their names. There are none
// without a handover.
func handed(p *agentwire.ProvisionUserParams) map[string]string {
	o := p.Handover
	if o == nil {
		return nil
	}
	env := []string{
		"GPUAAS_ALLOCATION_ID=" + p.AllocationID, "GPUAAS_PROJECT=" + o.Project, "GPUAAS_NODE=" + o.Node,
		"GPUAAS_SKU=" + o.SKU, "GPUAAS_GPUS=" + strconv.Itoa(o.GPUs),
	}
	ends := "It has no end."
	if o.ExpiresAt != "" {
		env = append(env, "GPUAAS_EXPIRES_AT="+o.ExpiresAt)
		ends = "It ends at " + o.ExpiresAt + ", unless it is extended."
	}
	rights := "without root"
	if p.Sudo {
		rights = "with root (sudo)"
	}
	note := fmt.Sprintf("Node %s, %s with %d GPUs, belongs to project %s, %s.\n"+
		"Allocation %s. %s\n"+
		"When it ends, everything on this machine is erased: keep nothing here that you need.\n",
		o.Node, o.SKU, o.GPUs, o.Project, rights, p.AllocationID, ends)
	return map[string]string{handoverEnv: strings.Join(env, "\n") + "\n", handoverNote: note}
}

// handoverIs says whether the tenant can read what was handed over. What the
// tenant made of the profile is the tenant's.
func (h provision) handoverIs(p *agentwire.ProvisionUserParams) bool {
	files := handed(p)
	if len(files) == 0 {
		return true
	}
	folder, err := h.folder(p, handoverFolder, false)
	if err != nil {
		return false
	}
	defer folder.Close()
	for name, text := range files {
		if !holds(folder, name, text) {
			return false
		}
	}
	return true
}

func (h provision) writeHandover(p *agentwire.ProvisionUserParams) error {
	files := handed(p)
	if len(files) == 0 {
		return nil
	}
	folder, err := h.folder(p, handoverFolder, true)
	if err != nil {
		return err
	}
	defer folder.Close()
	for name, text := range files {
		if err := h.write(folder, name, text, p); err != nil {
			return fmt.Errorf("write %s of %s: %w", name, p.Username, err)
		}
	}
	home, err := h.home(p)
	if err != nil {
		return err
	}
	defer home.Close()
	before, _, err := readSmall(home, profileFile, maxProfile)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil // the tenant made something else of it, and can read the files
	case strings.Contains(string(before), profileLine):
		return nil
	}
	if err := h.write(home, profileFile, string(before)+profileLine+"\n", p); err != nil {
		return fmt.Errorf("write profile of %s: %w", p.Username, err)
	}
	return nil
}

// canLogIn looks whether the account can be used: its shell can be started, and
// what the SSH server looks at before it believes keys is as it must be.
func (h provision) canLogIn(p *agentwire.ProvisionUserParams) bool {
	there, exists, err := h.lookup(p.Username)
	if err != nil || !exists || !h.homeIs(p) || !h.keysAre(p) {
		return false
	}
	shell, err := os.Stat(h.Host.Path(there.Shell))
	return err == nil && shell.Mode().IsRegular() && shell.Mode().Perm()&0o111 != 0
}
