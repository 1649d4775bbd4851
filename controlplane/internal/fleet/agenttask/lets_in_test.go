package agenttask_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// A task that gives somebody access waits while a node is being cleaned. The claim lists
// these tasks by name, because it is one statement.
func TestWhoIsLetInWaitsForTheCleaning(t *testing.T) {
	queries, err := os.ReadFile("queries.sql")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`t\.type NOT IN \(([^)]*)\)`).FindSubmatch(queries)
	if found == nil {
		t.Fatal("the claim lists no tasks that wait for a cleaning")
	}
	listed := strings.Split(strings.ReplaceAll(string(found[1]), "'", ""), ", ")
	var want []string
	for _, s := range agentwire.Catalog() {
		if s.LetsIn && !slices.Contains(want, s.Type) {
			want = append(want, s.Type)
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the claim holds back %q, and these let somebody in: %q", listed, want)
	}
}
