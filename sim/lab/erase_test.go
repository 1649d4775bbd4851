package lab_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"gpuaas/sim/lab"
	"gpuaas/testkit"
)

// What a tenant left on a machine is gone after its disks were erased, and at
// the latest when it is deployed again.
func TestAReleasedMachineLosesItsFiles(t *testing.T) {
	for name, form := range map[string]url.Values{
		"erased":     {"erase": {"true"}, "quick_erase": {"true"}},
		"not erased": {},
	} {
		t.Run(name, func(t *testing.T) {
			machines := t.TempDir()
			r := openRack(t, machines)
			l := open(t, 1, func(o *lab.Options) { o.Rack = r })
			t.Cleanup(func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if err := r.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
			id := l.SystemIDs()[0]
			deploy(t, l, id, "#cloud-config\nwrite_files:\n  - path: /var/lib/gpuaas-firstboot/01-x.json\n    content: hello\n")
			var root string
			testkit.Eventually(t, "a first boot", func() bool { root = holder(t, machines, "01-x.json"); return root != "" })
			if err := os.WriteFile(filepath.Join(root, "left-behind"), []byte("data of a tenant"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Release(t.Context(), admin, id, form); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "Ready", func() bool { return brief(t, l, id).Status == "Ready" })
			if len(form) > 0 {
				testkit.Eventually(t, "erased disks", func() bool { return holder(t, machines, "left-behind") == "" })
			}
			deploy(t, l, id, "#cloud-config\nwrite_files:\n  - path: /var/lib/gpuaas-firstboot/01-y.json\n    content: again\n")
			testkit.Eventually(t, "the next first boot", func() bool { return holder(t, machines, "01-y.json") != "" })
			for _, file := range []string{"left-behind", "01-x.json"} {
				if in := holder(t, machines, file); in != "" {
					t.Errorf("%s is still there, in %s", file, in)
				}
			}
		})
	}
}

// holder returns the folder that holds a file, somewhere below another. It is
// empty if there is none.
func holder(t *testing.T, below, name string) (folder string) {
	t.Helper()
	err := filepath.WalkDir(below, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			folder = filepath.Dir(path)
		}
		return nil // what vanishes meanwhile is not there
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
