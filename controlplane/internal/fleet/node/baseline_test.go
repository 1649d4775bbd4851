package node_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// taken is an installation with some entries.
func taken(installation string, entries ...agentwire.Entry) agentwire.Inventory {
	return agentwire.Inventory{
		Installation: installation, TakenAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Entries: entries, Unseen: []string{},
	}
}

// hand is an agent that hands over what its installation is like.
func (w *world) hand(tb testing.TB, n id.Node, i agentwire.Inventory) agentwire.BaselineResponse {
	tb.Helper()
	raw, err := json.Marshal(i)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := w.service.KeepBaseline(tb.Context(), n,
		node.SignedBaseline{Inventory: i, Raw: raw, Signature: []byte("signature"), Serial: "ab"})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// differs is what an installation has that its baseline does not have.
func (w *world) differs(tb testing.TB, n id.Node, i agentwire.Inventory) []agentwire.CleanFinding {
	tb.Helper()
	b, ok, err := w.service.BaselineOf(tb.Context(), n, i.Installation)
	if err != nil || !ok {
		tb.Fatalf("no baseline: %v", err)
	}
	return b.Compare(i, node.Comparison{})
}

var shell = agentwire.Entry{Kind: agentwire.EntrySetID, Name: "/var/tmp/sh", Value: "mode 4755 uid 0 gid 0 sha256:1"}

// Whoever was on the machine could have its agent say anything: what it is
// compared with was written before.
func TestAttackABaselineIsNotRewrittenOnceATenantWasThere(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	if out := w.hand(t, a.node, taken("i1")); out.Outcome != agentwire.BaselineKept {
		t.Fatalf("the first baseline is %+v", out)
	}
	if out := w.hand(t, a.node, taken("i1", agentwire.Entry{
		Kind: agentwire.EntryUnit,
		Name: "/etc/systemd/system/late.service", Value: "x",
	})); out.Outcome != agentwire.BaselineKept {
		t.Fatalf("the end of the first boot is %+v", out)
	}
	w.taint(t, a.node)
	if out := w.hand(t, a.node, taken("i1", shell)); out.Outcome != agentwire.BaselineClosed || out.Reason == "" {
		t.Errorf("a baseline after a tenant is %+v", out)
	}
	w.clean(t, a.node)
	if out := w.hand(t, a.node, taken("i1", shell)); out.Outcome != agentwire.BaselineClosed {
		t.Errorf("a baseline after a tenant and a cleaning is %+v", out)
	}
	if found := w.differs(t, a.node, taken("i1", shell)); len(found) != 1 || found[0].Subject != shell.Name {
		t.Errorf("findings %+v", found)
	}
	if w.audited(t, a.node, "node.keep_baseline") != 2 {
		t.Error("it is not audited")
	}
}

// A new identity on the same installation is no new installation.
func TestAttackARecoveryTokenOpensNoBaseline(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.taint(t, a.node)
	w.exec(t, `DELETE FROM node_baselines`) // it enrolled before baselines were kept
	token, _, err := w.service.IssueToken(system(t), a.node, node.Recovery, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	a.key = "another"
	if err := a.begin(t, token); err != nil {
		t.Fatal(err)
	}
	if out := w.hand(t, a.node, taken("i1", shell)); out.Outcome != agentwire.BaselineClosed {
		t.Errorf("it is %+v", out)
	}
}

// A machine that left unclean and comes back under another name has not been
// installed anew for that.
func TestAttackAMachineThatComesBackHasNoNewBaseline(t *testing.T) {
	w := newWorld(t)
	old := w.active(t, "m1")
	w.taint(t, old.node)
	w.leaves(t, old.node)
	back := w.active(t, "m1")
	if out := w.hand(t, back.node, taken("i1", shell)); out.Outcome != agentwire.BaselineClosed {
		t.Errorf("it is %+v", out)
	}
}

// The baseline of one installation says nothing about another.
func TestABaselineIsOfOneInstallation(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.hand(t, a.node, taken("i1"))
	if _, ok, err := w.service.BaselineOf(t.Context(), a.node, "i2"); ok || err != nil {
		t.Errorf("another installation has it: %t, %v", ok, err)
	}
	w.taint(t, a.node)
	w.exec(t, `UPDATE nodes SET onboarding_mode = 'maas', generation = 2 WHERE id = $1`, a.node)
	w.exec(t, `INSERT INTO node_baselines (node_id, generation) VALUES ($1, 2)`, a.node)
	if out := w.hand(t, a.node, taken("i1", shell)); out.Outcome != agentwire.BaselineClosed {
		t.Errorf("a machine that was not installed anew gets %+v", out)
	}
	if out := w.hand(t, a.node, taken("i2", shell)); out.Outcome != agentwire.BaselineKept {
		t.Errorf("a machine that was installed anew gets %+v", out)
	}
	if found := w.differs(t, a.node, taken("i2", shell)); len(found) != 0 {
		t.Errorf("findings %+v", found)
	}
}

// compare holds an installation against a baseline.
func compare(tb testing.TB, before, now []agentwire.Entry) []agentwire.CleanFinding {
	tb.Helper()
	w := newWorld(tb)
	a := w.active(tb, "m1")
	w.hand(tb, a.node, taken("i1", before...))
	b, _, err := w.service.BaselineOf(tb.Context(), a.node, "i1")
	if err != nil {
		tb.Fatal(err)
	}
	return b.Compare(taken("i1", now...), node.Comparison{
		Allowed: []string{"deploy"},
		Delivered: func(version string) map[string]string {
			if version != "2.0" {
				return nil
			}
			return map[string]string{"gpuaas-agent": "sha256:good", "gpuaas-gpu": "sha256:helper"}
		},
	})
}

func TestComparing(t *testing.T) {
	entry := func(kind, name, value string) agentwire.Entry {
		return agentwire.Entry{Kind: kind, Name: name, Value: value}
	}
	packaged := func(e agentwire.Entry) agentwire.Entry { e.Packaged = true; return e }
	before := []agentwire.Entry{
		entry(agentwire.EntryAccount, "admin", "uid 1000 gid 1000 home /home/admin shell /bin/bash"),
		entry(agentwire.EntryAccount, "deploy", "uid 1001 gid 1001 home /home/deploy shell /bin/bash"),
		entry(agentwire.EntryGroup, "deploy", "gid 1001"),
		entry(agentwire.EntrySetID, "/usr/bin/sudo", "mode 4755 uid 0 gid 0 sha256:1"),
		entry(agentwire.EntryModuleIndex, "6.8", "sha256:index"),
		entry(agentwire.EntryModule, "nvme", "/lib/modules/6.8/nvme.ko"),
		entry(agentwire.EntryACL, "/var/log/journal", "access u:7 g:5 group:4:5 m:5 o:5 default u:7 g:5 group:4:5 m:5 o:0"),
		entry(agentwire.EntryAgent, "/opt/gpuaas/agent/1.0/gpuaas-agent", "sha256:old"),
	}
	index := before[4]
	var fine, bad []agentwire.Entry
	fine = append(fine, before...)
	fine = append(fine,
		entry(agentwire.EntryAccount, "admin", "uid 1000 gid 1000 home /home/admin shell /usr/sbin/nologin"),
		entry(agentwire.EntryAccount, "deploy", "uid 1001 gid 1001 home /srv/deploy shell /bin/sh"),
		entry(agentwire.EntryMember, "deploy:deploy", ""),
		packaged(entry(agentwire.EntrySetID, "/usr/bin/sudo", "mode 4755 uid 0 gid 0 sha256:2")),
		packaged(entry(agentwire.EntryModule, "wireguard", "/lib/modules/6.9/wireguard.ko")),
		entry(agentwire.EntryModule, "nvidia_uvm", "/lib/modules/6.8/updates/dkms/nvidia-uvm.ko"),
		entry(agentwire.EntryACL, "/var/log/journal/1/system.journal", "access u:6 g:4 group:4:4 m:4 o:0"),
		entry(agentwire.EntryAgent, "/opt/gpuaas/agent/2.0/gpuaas-agent", "sha256:good"),
		entry(agentwire.EntryAgent, "/opt/gpuaas/agent/current", "-> 2.0"),
		entry(agentwire.EntryUnit, "/etc/systemd/system/multi-user.target.wants/snap-core22-1122.mount",
			"-> /etc/systemd/system/snap-core22-1122.mount"),
	)
	bad = []agentwire.Entry{
		index,
		entry(agentwire.EntryGroup, "deploy", "gid 0"),
		entry(agentwire.EntryAccount, "admin", "uid 0 gid 1000 home /home/admin shell /usr/sbin/nologin"),
		entry(agentwire.EntryAccount, "sysd", "uid 1500 gid 1500 home / shell /bin/sh"),
		entry(agentwire.EntryGroup, "mine", "gid 1500"),
		entry(agentwire.EntryMember, "sudo:deploy", ""),
		entry(agentwire.EntryPassword, "root", "set"),
		entry(agentwire.EntryKey, "/root"+"/.ssh/authorized_keys x", ""),
		entry(agentwire.EntrySetID, "/usr/bin/sudo", "mode 4755 uid 0 gid 0 sha256:2"),
		shell,
		entry(agentwire.EntryCapability, "/usr/bin/dump", "01"),
		entry(agentwire.EntryUnit, "/etc/systemd/system/x.service", "sha256:1"),
		entry(agentwire.EntryCron, "/var/spool/cron/crontabs/daemon", "sha256:1"),
		entry(agentwire.EntryAt, "/var/spool/cron/atjobs/a1", "sha256:1"),
		entry(agentwire.EntryPreload, "/etc/ld.so.preload", "sha256:1"),
		entry(agentwire.EntryModule, "evil", ""),
		entry(agentwire.EntrySocket, "tcp 1337 on the network by x", "uid 0"),
		entry(agentwire.EntrySpool, "/var/crash/x", "uid 0"),
		entry(agentwire.EntryForeign, "/opt/x", "uid 40000 gid 40000"),
		entry(agentwire.EntryACL, "/var/log/journal/1/system.journal", "access u:6 g:4 user:1500:4 m:4 o:0"),
		entry(agentwire.EntryACL, "/srv", "access u:7 user:1500:7"),
		entry(agentwire.EntryAgent, "/opt/gpuaas/agent/2.0/gpuaas-agent", "sha256:mine"),
		entry(agentwire.EntryAgent, "/opt/gpuaas/agent/1.0/gpuaas-agent", "sha256:mine"),
		entry(agentwire.EntryAgent, "/opt/gpuaas/agent/current", "-> /tmp/x"),
		packaged(entry(agentwire.EntryAccount, "also", "uid 1 gid 1 home / shell /bin/sh")),
	}
	if found := compare(t, before, fine); len(found) != 0 {
		t.Errorf("findings about what is fine: %+v", found)
	}
	found := compare(t, before, bad)
	for _, e := range bad[1:] {
		told := false
		for _, f := range found {
			told = told || f.Kind == e.Kind && f.Subject == e.Name && strings.Contains(f.Detail, e.Value)
		}
		if !told {
			t.Errorf("no finding about %+v", e)
		}
	}
	if len(found) != len(bad)-1 {
		t.Errorf("%d findings about %d things", len(found), len(bad)-1)
	}
}

func TestDifferencesAreBounded(t *testing.T) {
	var many []agentwire.Entry
	for range 1000 {
		many = append(many, agentwire.Entry{Kind: agentwire.EntrySpool, Name: "/var/crash/" + id.NewString(), Value: "uid 0"})
	}
	found := compare(t, nil, many)
	if len(found) != 200 || !strings.Contains(found[199].Detail, "801 more") {
		t.Errorf("%d findings, the last %+v", len(found), found[len(found)-1])
	}
}

// Whoever has root and many files beside does not hide what only root leaves.
func TestAttackManyDifferencesHideNothingOfRoot(t *testing.T) {
	var many []agentwire.Entry
	for range 1000 {
		many = append(many, agentwire.Entry{
			Kind: agentwire.EntryForeign, Name: "/opt/" + id.NewString(),
			Value: "uid 100000 gid 100000",
		})
	}
	if found := compare(t, nil, append(many, shell)); found[0].Subject != shell.Name || !node.LeftByRoot(found[0]) {
		t.Errorf("the first finding is %+v", found[0])
	}
}

// An account is not the deploy user because it is called so: whoever gives that
// name the uid of root, or one of their own, keeps a way in that is exempt.
func TestAttackAnAccountThatIsCalledLikeTheDeployUser(t *testing.T) {
	deploy := func(value string) []agentwire.Entry {
		return []agentwire.Entry{{Kind: agentwire.EntryAccount, Name: "deploy", Value: value}}
	}
	before := deploy("uid 1001 gid 1001 home /home/deploy shell /bin/bash")
	for now, found := range map[string]int{
		"uid 1001 gid 1001 home /home/deploy shell /usr/sbin/nologin": 0,
		"uid 1001 gid 1001 home /home/deploy shell /bin/sh":           0,
		"uid 0 gid 0 home /home/deploy shell /bin/bash":               1,
		"uid 10010 gid 1001 home /home/deploy shell /bin/bash":        1,
		"uid 1001 gid 0 home /home/deploy shell /bin/bash":            1,
		"uid 1001 gid 10010 home /home/deploy shell /bin/sh":          1,
		"uid 1500 gid 1500 home /home/deploy shell /usr/sbin/nologin": 1,
	} {
		if got := compare(t, before, deploy(now)); len(got) != found {
			t.Errorf("%s: findings %+v, want %d", now, got, found)
		}
	}
	if got := compare(t, nil, deploy("uid 1001 gid 1001 home /home/deploy shell /bin/bash")); len(got) != 1 {
		t.Errorf("an account that the baseline does not have: findings %+v", got)
	}
	if got := compare(t, deploy("uid 0 gid 0 home /root shell /bin/bash"),
		deploy("uid 0 gid 0 home /root shell /bin/sh")); len(got) != 1 {
		t.Errorf("one that was root: findings %+v", got)
	}
}

// A rule that somebody leaves for sshd or PAM is found where the baseline looked
// there. One of an agent of before does not make every node unclean; what it did
// not look at is named.
func TestAttackARuleOfSSHDOrPAMIsLeft(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	packaged := agentwire.Entry{
		Kind: agentwire.EntryUnit, Name: "/etc/modprobe.d/x.conf", Value: "sha256:1",
		Packaged: true,
	}
	pretends := agentwire.Entry{Kind: agentwire.EntryUnit, Name: "/etc/pam.d/cron", Value: "sha256:1", Packaged: true}
	ours := agentwire.Entry{Kind: agentwire.EntryUnit, Name: "/etc/pam.d/sshd", Value: "sha256:1"}
	planted := []agentwire.Entry{
		packaged, pretends,
		{Kind: agentwire.EntryUnit, Name: "/etc/ssh/sshd_config.d/00.conf", Value: "sha256:1"},
		{Kind: agentwire.EntryUnit, Name: "/etc/pam.d/sshd", Value: "sha256:2"},
		{Kind: agentwire.EntryUnit, Name: "/etc/environment", Value: "sha256:3"},
	}
	unit := agentwire.Entry{Kind: agentwire.EntryUnit, Name: "/etc/systemd/system/x.service", Value: "sha256:1"}
	old := taken("i1")
	w.hand(t, a.node, old)
	if found := w.differs(t, a.node, taken("i1", append(planted, unit)...)); len(found) != 1 ||
		found[0].Subject != unit.Name {
		t.Errorf("a baseline of before: findings %+v", found)
	}
	covering := taken("i1", ours)
	covering.Covers = agentwire.LaterPlaces
	w.hand(t, a.node, covering)
	now := taken("i1", planted...)
	now.Covers = agentwire.LaterPlaces
	found := w.differs(t, a.node, now)
	if len(found) != 4 || !node.LeftByRoot(found[0]) {
		t.Errorf("findings %+v", found)
	}
	b, _, err := w.service.BaselineOf(t.Context(), a.node, "i1")
	if err != nil || len(b.Uncovered()) != 0 {
		t.Errorf("not covered: %v, %v", b.Uncovered(), err)
	}
}

// Whoever brings an older agent back, which does not look where something was left,
// does not get a clean node.
func TestAttackAnAgentThatLooksAtLess(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	covering := taken("i1")
	covering.Covers = agentwire.LaterPlaces
	w.hand(t, a.node, covering)
	now := taken("i1")
	now.Covers = agentwire.LaterPlaces[1:]
	if found := w.differs(t, a.node, now); len(found) != 1 ||
		!strings.Contains(found[0].Detail, agentwire.LaterPlaces[0]) {
		t.Errorf("findings %+v", found)
	}
	now.Covers = append([]string{"/etc/newer"}, agentwire.LaterPlaces...)
	if found := w.differs(t, a.node, now); len(found) != 0 {
		t.Errorf("an agent that looks at more: findings %+v", found)
	}
}

// Package managers know what is in a file, and not its mode: a bit that somebody
// set on a program of a package is no part of the package.
func TestAttackASetuidBitOnAProgramOfAPackage(t *testing.T) {
	of := func(name, value string) []agentwire.Entry {
		return []agentwire.Entry{{Kind: agentwire.EntrySetID, Name: name, Value: value, Packaged: true}}
	}
	before := of("/usr/bin/wall", "mode 2755 uid 0 gid 5 sha256:1")
	for name, c := range map[string]struct {
		now   []agentwire.Entry
		found int
	}{
		"an update":          {of("/usr/bin/wall", "mode 2755 uid 0 gid 5 sha256:2"), 0},
		"a program":          {of("/usr/bin/bash", "mode 4755 uid 0 gid 0 sha256:3"), 1},
		"setuid beside":      {of("/usr/bin/wall", "mode 6755 uid 0 gid 5 sha256:1"), 1},
		"another group":      {of("/usr/bin/wall", "mode 2755 uid 0 gid 42 sha256:1"), 1},
		"everybody writes":   {of("/usr/bin/wall", "mode 2777 uid 0 gid 5 sha256:2"), 1},
		"no digest is known": {of("/usr/bin/wall", "mode 2755"), 1},
		"nothing is said":    {of("/usr/bin/wall", ""), 1},
	} {
		got := compare(t, before, c.now)
		if len(got) != c.found || c.found > 0 && !node.LeftByRoot(got[0]) {
			t.Errorf("%s: findings %+v, want %d", name, got, c.found)
		}
	}
}
