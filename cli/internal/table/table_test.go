package table

import (
	"strings"
	"testing"
)

func TestTableNeverTruncates(t *testing.T) {
	long := strings.Repeat("x", 500)
	got := Align([][]string{{"A", "B"}, {long, "東京"}, {"y", ""}})
	if got != "A"+strings.Repeat(" ", 501)+"B\n"+long+"  東京\n"+"y\n" {
		t.Error(got)
	}
}
