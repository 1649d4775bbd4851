package maas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"gpuaas/sim/maas/region"
)

func (b *stubBMC) PowerOn(_ context.Context, t region.Target) error {
	b.state[t.SystemID] = "on"
	return nil
}

func (b *stubBMC) PowerOff(_ context.Context, t region.Target) error {
	b.state[t.SystemID] = "off"
	return nil
}

func (b *stubBMC) State(_ context.Context, t region.Target) (string, error) {
	if s := b.state[t.SystemID]; s != "" {
		return s, nil
	}
	return "off", nil
}

// difference is one point in which an answer differs from the recording.
type difference struct{ where, recorded, here string }

// exact are the fields of a machine that must agree in value, not only in kind.
var exact = []string{
	"status", "status_name", "status_message", "status_action", "power_state", "power_type", "owner", "hostname", "fqdn",
	"osystem", "distro_series", "hwe_kernel", "netboot", "locked",
	"enable_hw_sync", "sync_interval", "error_description", "ip_addresses", "workload_annotations", "owner_data",
	"ephemeral_deploy", "memory", "cpu_count", "storage", "bios_boot_method", "commissioning_status", "architecture",
}

func compare(r *replay, e recording, a answer) []difference {
	var d []difference
	note := func(where, recorded, here string) {
		if recorded != here {
			d = append(d, difference{where, recorded, here})
		}
	}
	note("status", strconv.Itoa(e.Status), strconv.Itoa(a.status))
	note("content type", e.ContentType, a.header.Get("Content-Type"))
	for name, v := range e.Headers {
		note("header "+name, v, a.header.Get(name))
	}
	switch recorded := e.Body.(type) {
	case string:
		if recorded != "null" && strings.HasPrefix(e.ContentType, "application/json") {
			note("body", fmt.Sprintf("%q", recorded), a.body)
		} else {
			note("body", r.neutral(recorded), r.neutral(a.body))
		}
	default:
		var here any
		if err := json.Unmarshal([]byte(a.body), &here); err != nil {
			note("body", "JSON", a.body)
			return d
		}
		if e.Status >= 400 {
			note("body", r.neutral(canonical(recorded)), r.neutral(canonical(here)))
			return d
		}
		d = append(d, shapes("", recorded, here)...)
		d = append(d, r.values(e, recorded, here)...)
	}
	return d
}

var volatile = regexp.MustCompile(`given \d+ and now \d+|&[A-Za-z0-9]{6,}|===+\d+==|[0-9a-f]{8}-[0-9a-f-]{27}`)

// neutral replaces what differs between any two regions.
func (r *replay) neutral(s string) string {
	s = r.renamed(s)
	for recorded, here := range r.ids {
		if n, ok := strings.CutPrefix(recorded, "blockdevice "); ok {
			s = strings.ReplaceAll(s, "'"+here+"'", "'"+n+"'")
		}
	}
	return volatile.ReplaceAllString(s, "(varies)")
}

func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	}
	return "object"
}

// free are objects whose keys are data.
var free = regexp.MustCompile(`(workload_annotations|owner_data|parameters)$`)

// shapes compares keys and kinds all the way down.
func shapes(at string, recorded, here any) []difference {
	if a, b := kind(recorded), kind(here); a != b {
		return []difference{{strings.TrimPrefix(at, "."), a, b}}
	}
	var d []difference
	switch recorded := recorded.(type) {
	case map[string]any:
		if free.MatchString(at) {
			return nil
		}
		here, _ := here.(map[string]any)
		keys := map[string]bool{}
		for k := range recorded {
			keys[k] = true
		}
		for k := range here {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			a, inRecorded := recorded[k]
			b, isHere := here[k]
			switch {
			case !inRecorded:
				d = append(d, difference{strings.TrimPrefix(at+"."+k, "."), "absent", kind(b)})
			case !isHere:
				d = append(d, difference{strings.TrimPrefix(at+"."+k, "."), kind(a), "absent"})
			default:
				d = append(d, shapes(at+"."+k, a, b)...)
			}
		}
	case []any:
		here, _ := here.([]any)
		for n := range min(len(recorded), len(here)) {
			d = append(d, shapes(at+"[]", recorded[n], here[n])...)
		}
		if len(recorded) != len(here) {
			d = append(d, difference{
				strings.TrimPrefix(at, ".") + " length", strconv.Itoa(len(recorded)),
				strconv.Itoa(len(here)),
			})
		}
	}
	return d
}

// values compares the fields that must agree in value.
func (r *replay) values(e recording, recorded, here any) []difference {
	var d []difference
	a, isObject := recorded.(map[string]any)
	b, _ := here.(map[string]any)
	switch {
	case isObject && a["status_name"] != nil && a["system_id"] != nil:
		d = append(d, r.machineValues(a, b)...)
	case strings.HasPrefix(e.Path, "/events/") && isObject:
		x, y := r.neutral(story(a)), r.neutral(story(b))
		if played := r.played; played != nil {
			x, y = played(x), played(y)
			y = y[:min(len(x), len(y))]
		}
		if x != y {
			d = append(d, difference{"events", x, y})
		}
	case strings.HasPrefix(e.Path, "/machines/?"):
		x, _ := recorded.([]any)
		y, _ := here.([]any)
		for n := range min(len(x), len(y)) {
			a, _ := x[n].(map[string]any)
			b, _ := y[n].(map[string]any)
			d = append(d, r.machineValues(a, b)...)
		}
	case strings.HasSuffix(e.Path, "/blockdevices/"):
		if x, y := sizes(recorded), sizes(here); x != y {
			d = append(d, difference{"sizes", x, y})
		}
	}
	return d
}

func (r *replay) machineValues(recorded, here map[string]any) []difference {
	var d []difference
	for _, k := range exact {
		if x, y := r.neutral(canonical(recorded[k])), canonical(here[k]); x != y {
			d = append(d, difference{k, x, y})
		}
	}
	return d
}

func story(page map[string]any) string {
	var lines []string
	events, _ := page["events"].([]any)
	for _, e := range events {
		m, _ := e.(map[string]any)
		lines = append(lines, fmt.Sprintf("%v %v (%v) by %v", m["level"], m["type"], m["description"], m["username"]))
	}
	return strings.Join(lines, "; ")
}

func sizes(list any) string {
	var s []string
	devices, _ := list.([]any)
	for _, e := range devices {
		m, _ := e.(map[string]any)
		s = append(s, fmt.Sprintf("%v: %.0f/%.0f %v", m["name"], m["used_size"], m["available_size"], m["used_for"]))
	}
	return strings.Join(s, "; ")
}

// accepted is an intended difference, with its reason. at may end in *, and
// where is matched from its start.
type accepted struct{ at, where, reason string }

type conformance struct {
	played   int
	open     map[string][]difference
	labels   map[string]string
	accepted []string
	at       map[string]bool
	used     map[accepted]int
	status   map[int]int
}

func newConformance() *conformance {
	return &conformance{
		open: map[string][]difference{}, labels: map[string]string{}, at: map[string]bool{},
		used: map[accepted]int{}, status: map[int]int{},
	}
}

func (c *conformance) add(e recording, found []difference) {
	c.played++
	c.status[e.Status]++
	c.labels[e.At] = e.Label + " " + e.Method + " " + e.Path
	seen := map[difference]bool{}
	for _, d := range found {
		if seen[d] { // the same in several elements of a list
			continue
		}
		seen[d] = true
		if a, ok := accept(e.At, d); ok {
			c.used[a]++
			c.at[e.At] = true
			c.accepted = append(c.accepted, e.At+" "+d.where)
			continue
		}
		c.open[e.At] = append(c.open[e.At], d)
	}
}

func accept(at string, d difference) (accepted, bool) {
	for _, a := range acceptedDifferences {
		prefix, wild := strings.CutSuffix(a.at, "*")
		if (at == a.at || wild && strings.HasPrefix(at, prefix)) && strings.HasPrefix(d.where, a.where) {
			return a, true
		}
	}
	return accepted{}, false
}

func (c *conformance) touched() int { return len(c.at) }

// settle fails the test for every difference that nobody accepted, and for
// every acceptance that is no longer needed.
func (c *conformance) settle(t *testing.T) {
	t.Helper()
	for _, at := range slices.Sorted(maps.Keys(c.open)) {
		for _, d := range c.open[at] {
			t.Errorf("%s %s: %s: recorded %.300s, here %.300s", at, c.labels[at], d.where, d.recorded, d.here)
		}
	}
	for _, a := range acceptedDifferences {
		if c.used[a] == 0 {
			t.Errorf("accepted difference %s %s does not occur", a.at, a.where)
		}
	}
}

func (c *conformance) document() string {
	var b strings.Builder
	b.WriteString("# How close the MAAS simulator is to MAAS\n\n")
	b.WriteString("Written by the replay test in `sim/maas`; run it with `-update` to write it again.\n\n")
	fmt.Fprintf(&b, "%d exchanges recorded from a MAAS 3.7.3 region are replayed in order against the simulator.\n",
		c.played)
	b.WriteString("Compared are status, content type, headers, the keys and JSON kinds of the body all the way\ndown, " +
		"refusals word for word, the state of machines and the events in value.\n\n")
	b.WriteString("| Status | Exchanges |\n| --- | --- |\n")
	for _, s := range slices.Sorted(maps.Keys(c.status)) {
		fmt.Fprintf(&b, "| %d | %d |\n", s, c.status[s])
	}
	fmt.Fprintf(&b, "\nAccepted differences: %d, in %d of the exchanges. The other %d agree.\n\n", len(c.accepted),
		c.touched(), c.played-c.touched())
	b.WriteString("| Exchanges | What | Times | Why it is accepted |\n| --- | --- | --- | --- |\n")
	list := slices.Clone(acceptedDifferences)
	sort.SliceStable(list, func(i, j int) bool { return list[i].at < list[j].at })
	for _, a := range list {
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", strings.ReplaceAll(a.at, "*", "…"), a.where, c.used[a], a.reason)
	}
	return b.String()
}
