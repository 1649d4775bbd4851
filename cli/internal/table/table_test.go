package table

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gpuaas/cli/internal/output"
)

func TestAlignNeverTruncates(t *testing.T) {
	long := strings.Repeat("x", 500)
	got := Align([][]string{{"A", "B"}, {long, "東京"}, {"y", ""}})
	if got != "A"+strings.Repeat(" ", 501)+"B\n"+long+"  東京\n"+"y\n" {
		t.Error(got)
	}
}

type row struct{ name, reason string }

func columns() []Column[row] {
	return []Column[row]{
		{Title: "NAME", Text: func(r row) string { return r.name }},
		{Title: "ID", Wide: true, Text: func(row) string { return "0190b2f4" }},
		{
			Title: "SINCE", Text: func(row) string { return "2026-03-04 05:06 (3m ago)" },
			Brief: func(row) string { return "3m ago" },
		},
		{Title: "REASON", Long: true, Text: func(r row) string { return r.reason }},
	}
}

// Lists keep to their width by what is long, and to nothing when somebody asks for all.
func TestListsShortenWhatIsLong(t *testing.T) {
	objects := []output.Object[row]{
		{Value: row{"a", strings.Repeat("x", 200)}}, {Value: row{"b", "short"}},
	}
	var plain, all strings.Builder
	if err := Print(&plain, columns(), objects, true, false); err != nil {
		t.Fatal(err)
	}
	if err := Print(&all, columns(), objects, true, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(plain.String(), "\n")
	if !strings.HasPrefix(lines[0], "NAME  SINCE   REASON") || !strings.HasSuffix(lines[1], "xx…") ||
		utf8.RuneCountInString(lines[1]) != Width || lines[2] != "b     3m ago  short" {
		t.Error(plain.String())
	}
	if !strings.Contains(all.String(), "a     0190b2f4  2026-03-04 05:06 (3m ago)  "+strings.Repeat("x", 200)+"\n") {
		t.Error(all.String())
	}
}

// Half a name is of no use: what is not long stays whole, however wide that is.
func TestNamesStayWhole(t *testing.T) {
	name := strings.Repeat("n", Width)
	var b strings.Builder
	err := Print(&b, columns(), []output.Object[row]{{Value: row{name, strings.Repeat("x", 100)}}}, false, false)
	if err != nil || b.String() != name+"  3m ago  "+strings.Repeat("x", leastLong-1)+"…\n" {
		t.Error(b.String(), err)
	}
}
