package durablefile

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	log "github.com/hashicorp/go-hclog"
	"github.com/openbao/openbao/sdk/v2/physical"
	physfile "github.com/openbao/openbao/sdk/v2/physical/file"
)

func opened(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, log.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The two exchange files in both directions, so that a store of before goes on
// and an older program could still read one of today.
func TestStoreIsTheFileStore(t *testing.T) {
	path := t.TempDir()
	ctx := context.Background()
	plain, err := physfile.NewFileBackend(map[string]string{"path": path}, log.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ours := opened(t, path)
	for key, pair := range map[string][2]physical.Backend{
		"a/b/c": {plain, ours}, "a/b/d": {ours, plain}, "top": {ours, plain},
	} {
		want := &physical.Entry{Key: key, Value: []byte("value of " + key)}
		if err := pair[0].Put(ctx, want); err != nil {
			t.Fatal(err)
		}
		got, err := pair[1].Get(ctx, key)
		if err != nil || got == nil || string(got.Value) != string(want.Value) {
			t.Fatalf("%s: %v, %v", key, got, err)
		}
	}
	if keys, err := ours.List(ctx, "a/b/"); err != nil || !slices.Equal(keys, []string{"c", "d"}) {
		t.Fatalf("list: %v, %v", keys, err)
	}
	for _, key := range []string{"a/b/c", "a/b/d", "a/b/d"} {
		if err := ours.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(path, "a")); !os.IsNotExist(err) {
		t.Fatalf("the empty folder is left: %v", err)
	}
	if err := ours.Put(ctx, &physical.Entry{Key: "../x", Value: []byte("v")}); err == nil {
		t.Fatal("a key above the store was accepted")
	}
}

// A crash between writing and renaming leaves a file that the store would list
// as a key.
func TestStoreForgetsWhatWasHalfWritten(t *testing.T) {
	path := t.TempDir()
	ctx := context.Background()
	if err := opened(t, path).Put(ctx, &physical.Entry{Key: "a/b", Value: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "a", "_b"+half), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	ours := opened(t, path)
	keys, err := ours.List(ctx, "a/")
	if err != nil || !slices.Equal(keys, []string{"b"}) {
		t.Fatalf("list: %v, %v", keys, err)
	}
	if got, err := ours.Get(ctx, "a/b"); err != nil || string(got.Value) != "old" {
		t.Fatalf("get: %v, %v", got, err)
	}
}
