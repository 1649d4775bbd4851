package faults

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuaas/sim/lab"
)

func TestSecretsAreFoundInEveryForm(t *testing.T) {
	w := &World{boots: newBoots(), canary: map[string]string{"BMC password": canaryOf(1, "bmc")}}
	data := []byte("#cloud-config\n" + strings.Repeat("what a machine is to do at its first boot\n", 10) +
		"ed25519_private: |\n  b3BlbnNzaC1rZXktdjE" +
		strings.Repeat("A", 45) + strings.Repeat("\n  "+strings.Repeat("K", 64), 3) + "\n")
	token := "gpuaas_n_" + strings.Repeat("T0ken", 8)
	if err := w.boots.beforeEnroll(t.Context(), lab.Boot{Hostname: "gpu-1", Token: token, UserData: data}); err != nil {
		t.Fatal(err)
	}
	password := w.canary["BMC password"]
	for name, c := range map[string]struct{ content, want string }{
		"nothing":                  {"a log line about gpu-1", ""},
		"a password in a log":      {`{"msg":"using ` + password + `"}`, "BMC password"},
		"a password in hex":        {`\x` + hex.EncodeToString([]byte("xx"+password)), "BMC password as bytes"},
		"a token":                  {"Authorization: Bearer " + token, "enrolment token of gpu-1"},
		"a token in base64":        {base64.StdEncoding.EncodeToString([]byte(token)), "enrolment token of gpu-1 in base64"},
		"a host key":               {"row " + strings.Repeat("K", 64), "host key of a machine"},
		"user data":                {string(data), "rendered user data"},
		"user data as MAAS has it": {base64.StdEncoding.EncodeToString(data), "rendered user data in base64"},
		"half of a token":          {token[:len(token)/2], ""},
		"the end of the content":   {strings.Repeat(".", 1000) + password, "BMC password"},
	} {
		found := w.sought().in([]byte(c.content))
		if c.want == "" && len(found) > 0 || c.want != "" && !slices.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}

func TestSearchingCountsAndFails(t *testing.T) {
	const job = "01a1de90-090d-71c5-a345-e52f9d522aee"
	w := &World{
		boots: newBoots(), canary: map[string]string{"token": "a-token-that-is-long-enough"},
		news: map[string]chan struct{}{job: nil},
	}
	got, err := w.search(t.Context(), func(_ context.Context, show func(string, []byte)) error {
		for i := range 3 {
			show(fmt.Sprintf("place %d", i), []byte("a-token-that-is-long-enough"))
		}
		show("elsewhere", []byte("started "+job))
		return errors.New("the rest cannot be read")
	}, []string{"else", "nowhere"})
	if err == nil || got.Secrets != 1 || got.Places != 4 || len(got.Leaks) != 3 ||
		!slices.Equal(got.Blind, []string{"nowhere"}) {
		t.Errorf("%+v, %v; want one secret in three of four places, no trace of the job in one, and that the rest could "+
			"not be read", got, err)
	}
}

func TestAStageIsMetOnceItsJobIsKnown(t *testing.T) {
	trap := NewTrap()
	r := &run{Case: Case{Section: Section{Stage: deploy}}, elsewhere: map[string]action{}, met: map[string]int{}}
	r.before, r.after = once(mishapTwice), once(mishapKilled)
	other := 0
	r.elsewhere[render] = func(_ context.Context, n int) string { other = n; return mishapNone }
	early := make(chan string, 1)
	go func() { early <- trap.Before(t.Context(), Point{Job: "j", Stage: deploy, Epoch: 1}) }()
	trap.set("j", r)
	if got := <-early; got != mishapTwice {
		t.Errorf("a stage that came before its job was known met %q", got)
	}
	for i, c := range []struct {
		before bool
		stage  string
		want   string
	}{
		{true, deploy, mishapNone},
		{false, deploy, mishapKilled},
		{false, deploy, mishapNone},
		{true, render, mishapNone},
		{false, render, mishapNone},
		{true, waitReady, mishapNone},
	} {
		meet := trap.After
		if c.before {
			meet = trap.Before
		}
		if got := meet(t.Context(), Point{Job: "j", Stage: c.stage, Epoch: 1}); got != c.want {
			t.Errorf("step %d: met %q, want %q", i, got, c.want)
		}
	}
	if other != 1 {
		t.Errorf("the other stage was met %d times, want once", other)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := trap.Before(gone, Point{Job: "nobody's", Stage: deploy}); got != mishapNone {
		t.Errorf("a job of nobody met %q", got)
	}
}
