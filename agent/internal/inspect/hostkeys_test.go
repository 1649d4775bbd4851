package inspect

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpuaas/agent/internal/hostexec"
)

// hostKey makes the line of a public key.
func hostKey(seed byte) string {
	public := make([]byte, ed25519.PublicKeySize)
	public[0] = seed
	var blob []byte
	for _, field := range [][]byte{[]byte("ssh-ed25519"), public} {
		blob = append(binary.BigEndian.AppendUint32(blob, uint32(len(field))), field...)
	}
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(blob)
}

func TestHostKeysAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	usual, own, other := hostKey(1), hostKey(2), hostKey(3)
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no SSH server": {},
		"the usual ones, with comments": {
			files: map[string]string{
				"/etc/ssh/sshd_config": "Port 22\n#HostKey /etc/ssh/other\n", "/etc/ssh/other.pub": other,
				"/etc/ssh/ssh_host_ed25519_key.pub": usual + " root@node\n", "/etc/ssh/ssh_host_rsa_key.pub": usual,
			},
			want: []string{usual},
		},
		"named ones": {
			files: map[string]string{
				"/etc/ssh/sshd_config": "hostkey=/a/own # ours\nHostKey \"/a b/other\"\nMatch User x\nHostKey /etc/ssh/late\n",
				"/a/own.pub":           own, "/a b/other.pub": other, "/etc/ssh/late.pub": usual,
				"/etc/ssh/ssh_host_ed25519_key.pub": usual,
			},
			want: []string{own, other},
		},
		"in a file that is included": {
			files: map[string]string{
				"/etc/ssh/sshd_config":           "Include sshd_config.d/*.conf /etc/ssh/more\n",
				"/etc/ssh/sshd_config.d/10.conf": "HostKey /a/own\n", "/etc/ssh/sshd_config.d/20.off": "HostKey /a/usual\n",
				"/etc/ssh/more": "HostKey /a/other", "/a/own.pub": own, "/a/other.pub": other, "/a/usual.pub": usual,
			},
			want: []string{own, other},
		},
		"that include themselves": {
			files: map[string]string{
				"/etc/ssh/sshd_config": "Include sshd_config\nHostKey /a/own\n", "/a/own.pub": own,
			},
			want: []string{own},
		},
		"what is none": {
			files: map[string]string{
				"/etc/ssh/sshd_config": "HostKey /a/own\nHostKey /a/text\nHostKey /a/long\nHostKey relative\nHostKey /a/gone\n",
				"/a/own.pub":           own, "/a/text.pub": "ssh-ed25519 hello", "/a/long.pub": strings.Repeat("x", 1<<20),
				"/etc/ssh/relative.pub": other,
			},
			want: []string{own},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			place(t, root, c.files)
			got := Machine{Host: hostexec.Host{Root: root}}.HostKeys()
			want := slices.Sorted(slices.Values(c.want))
			if !slices.Equal(got, want) {
				t.Errorf("host keys %q, want %q", got, want)
			}
		})
	}
}

// Who has root on a machine can put anything where a key was; the agent must not
// wait for it.
func TestAPipeInPlaceOfAHostKeyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place(t, root, map[string]string{
		"/etc/ssh/sshd_config": "HostKey /etc/ssh/pipe\nHostKey /etc/ssh/own\n", "/etc/ssh/own.pub": hostKey(1),
	})
	if err := syscall.Mkfifo(filepath.Join(root, "etc/ssh/pipe.pub"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := Machine{Host: hostexec.Host{Root: root}}.HostKeys()
	if !slices.Equal(got, []string{hostKey(1)}) {
		t.Errorf("host keys %q", got)
	}
}
