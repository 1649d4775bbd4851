package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane"
)

func TestAttackUpPointsToADeadToken(t *testing.T) {
	u := &up{state: "/state"}
	const show, repair = "cat /state/admin-token", "gpuaas admin recover --state /state"
	for name, c := range map[string]struct {
		admin        controlplane.AdminAccess
		shows, mends bool
	}{
		"dead":      {controlplane.AdminAccess{}, false, true},
		"ends soon": {controlplane.AdminAccess{Works: true, Ends: time.Now().Add(5 * 24 * time.Hour)}, true, true},
		"fine":      {controlplane.AdminAccess{Works: true, Ends: time.Now().Add(300 * 24 * time.Hour)}, true, false},
	} {
		said := u.wayIn(c.admin)
		if strings.Contains(said, show) != c.shows || strings.Contains(said, repair) != c.mends {
			t.Errorf("%s: it says%s", name, said)
		}
		if strings.Contains(u.beforeLogin(c.admin), repair) == c.admin.Works {
			t.Errorf("%s: before signing in comes %q", name, u.beforeLogin(c.admin))
		}
	}
}

func TestATokenIsKeptForItsOwnerOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admin-token")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := keepToken(file, controlplane.NewSecret("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if token, err := readToken(file); err != nil || token.Reveal() != "new" {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
