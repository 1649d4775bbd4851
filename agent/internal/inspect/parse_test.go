package inspect

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const mountinfo = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /proc rw,nosuid - proc proc rw
30 21 0:40 / /mnt/weka\040one rw,relatime shared:9 master:3 - wekafs backend/fs\011x rw,readcache
31 21 0:41 / /home/u1/sshfs rw,nosuid - fuse.sshfs host:/x rw,user_id=20001,group_id=20001
32 21 0:42 / /tmp rw - tmpfs tmpfs rw,size=1g
33 32 0:43 / /tmp rw - nfs4 server:/export rw,vers=4.2
garbage
34 21 0:44 / /broken rw
35 21 0:44 / /short rw - ext4
`

func TestMountsAreRead(t *testing.T) {
	mounts := parseMounts(mountinfo)
	if len(mounts) != 6 {
		t.Fatalf("%d mounts: %+v", len(mounts), mounts)
	}
	weka := mounts[2]
	if weka.Point != "/mnt/weka one" || weka.Type != "wekafs" || weka.Source != "backend/fs\tx" || !weka.Shared() {
		t.Errorf("%+v", weka)
	}
	if v, ok := mounts[3].Option("user_id"); !ok || v != "20001" {
		t.Errorf("user_id %q %v", v, ok)
	}
	for path, want := range map[string]string{
		"/tmp/x": "nfs4", "/tmp": "nfs4", "/tmpx": "ext4", "/etc": "ext4",
		"/home/u1/sshfs/a": "fuse.sshfs",
	} {
		if m, _ := Holding(mounts, path); m.Type != want {
			t.Errorf("%s lies on %s, want %s", path, m.Type, want)
		}
	}
	if mounts[0].Shared() || Mount.Shared(Mount{Type: "tmpfs"}) || !Mount.Shared(Mount{Type: "fuse"}) {
		t.Error("shared file systems are told apart wrongly")
	}
}

func TestFileTableIsRead(t *testing.T) {
	got := parseFileTable("# c\nUUID=1 / ext4 defaults 0 1\n\nserver:/x /mnt/with\\040space nfs ro\nshort /x\n")
	if len(got) != 2 || got[1].Point != "/mnt/with space" || got[1].Type != "nfs" {
		t.Errorf("%+v", got)
	}
}

func TestAccountsAreRead(t *testing.T) {
	got := parseAccounts(
		"root:x:0:0:root:/root:/bin/bash\n#c:x:1:1:::\nu:x:20001:20002:a,b:/home/u:/bin/sh\nbad:x:a:1:::\nneg:x:-1:1:::\nshort:x:1\n+::::::\nbig:x:4294967296:1:::\n")
	want := []Account{{"root", 0, 0, "/root", "/bin/bash"}, {"u", 20001, 20002, "/home/u", "/bin/sh"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if gid, ok := findGroup("a:x:1:\nb:x:20:u,v\nbad:x:y:\n", "b"); gid != 20 || !ok {
		t.Errorf("%d %v", gid, ok)
	}
	if _, ok := findGroup("a:x:1:\nbad:x:y:\n", "bad"); ok {
		t.Error("a group without an id")
	}
}

func TestProcessesAreRead(t *testing.T) {
	p, ok := parseStatus("Name:\tx\\ny\nState:\tS (sleeping)\nUid:\t20001\t0\t0\t0\nGid:\t1\t1\t1\t1\n")
	if !ok || !reflect.DeepEqual(p.UIDs, []int{20001, 0, 0, 0}) || !p.Belongs(20001) || p.Belongs(5) {
		t.Errorf("%+v %v", p, ok)
	}
	for _, text := range []string{
		"", "Name:\tx\n", "State:\tZ (zombie)\nUid:\t1\t1\t1\t1\n", "Uid:\t1\t1\n",
		"Uid:\tx\t1\t1\t1\n",
	} {
		if _, ok := parseStatus(text); ok {
			t.Errorf("%q is a process", text)
		}
	}
}

func TestIPCIsRead(t *testing.T) {
	got := parseIPC("shm", "       key      shmid perms  size  cpid  lpid nattch   uid   gid  cuid  cgid\n  0  98356   "+
		"600  56 30536 30541  0  20001  104  101  104\n broken\n")
	if len(got) != 1 || got[0] != (IPC{"shm", 98356, 20001, 101}) || !got[0].Belongs(101) {
		t.Errorf("%+v", got)
	}
	if got := parseIPC("msg", "key msqid perms uid cuid\n0 7 600 1 2\n"); len(got) != 1 || got[0].ID != 7 {
		t.Errorf("%+v", got)
	}
}

func FuzzMounts(f *testing.F) {
	f.Add(mountinfo)
	f.Add(`1 1 0:1 / /\999 rw - a b c`)
	f.Fuzz(func(t *testing.T, text string) {
		if n := len(parseMounts(text)); n > strings.Count(text, "\n")+1 {
			t.Errorf("%d mounts in fewer lines", n)
		}
		parseFileTable(text)
		Holding(parseMounts(text), "/tmp")
	})
}

func FuzzAccounts(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/bash\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range parseAccounts(text) {
			if a.Name == "" || a.UID < 0 || a.GID < 0 {
				t.Errorf("%+v", a)
			}
		}
		findGroup(text, "root")
	})
}

func FuzzIPC(f *testing.F) {
	f.Add("key shmid perms uid cuid\n0 7 600 1 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []string{"shm", "sem", "msg"} {
			for _, o := range parseIPC(kind, text) {
				if o.ID < 0 || o.UID < 0 {
					t.Errorf("%+v", o)
				}
			}
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add("Name:\tx\nUid:\t1\t1\t1\t1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parseStatus(text); ok && len(p.UIDs) != 4 {
			t.Errorf("%+v", p)
		}
	})
}
