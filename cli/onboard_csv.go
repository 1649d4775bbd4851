package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"gpuaas/cli/internal/failure"
	"gpuaas/contract/apiclient"
)

// mostMachines is how many machines one batch may have, by the contract.
const mostMachines = 1000

// elsewhere says where columns belong that people have in such files.
var elsewhere = map[string]string{
	"pxe_mac":   "it is detected, not entered",
	"interface": "RoCE addresses belong to the site: gpuaas site roce import",
	"ipv4_cidr": "RoCE addresses belong to the site: gpuaas site roce import",
	"sku":       "one SKU applies to the whole batch: --sku",
	"sku_id":    "one SKU applies to the whole batch: --sku",
	"site":      "one site applies to the whole batch: --site",
	"site_id":   "one site applies to the whole batch: --site",
	"profile":   "one profile applies to the whole batch: --profile",
	"ipmi_user": "BMC credentials belong to the site: gpuaas site credentials set, gpuaas site power-override set",
	"ipmi_pass": "BMC credentials belong to the site: gpuaas site credentials set, gpuaas site power-override set",
}

// The columns of a file of machines: those that it must have, and others that it may have.
var neededColumns, otherColumns = []string{"hostname", "ipmi_ip"}, []string{"rack", "pool", "labels"}

// machinesOf reads the machines of a CSV file; - is standard input.
func (s *session) machinesOf(file string) ([]apiclient.OnboardingBatchMachineBody, error) {
	in := s.Program.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, failure.New(failure.Usage, "csv_unreadable", "name a file that you can read, or - for standard input",
				"read CSV: %v", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	machines, err := readMachines(in)
	if err != nil {
		return nil, failure.New(failure.Usage, "csv_invalid", "fix the file; nothing was sent", "%s: %s", file,
			strings.ReplaceAll(err.Error(), "\n", "\n"+file+": "))
	}
	return machines, nil
}

// readMachines reads all rows, or says what is wrong with each that is, by line.
func readMachines(in io.Reader) ([]apiclient.OnboardingBatchMachineBody, error) {
	r := csv.NewReader(in)
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, -1
	header, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty: the first line must name the columns, hostname and ipmi_ip")
	case err != nil:
		return nil, fmt.Errorf("read the first line, which must name the columns, hostname and ipmi_ip: %w", err)
	}
	at, err := machineColumns(header)
	if err != nil {
		return nil, err
	}
	var rows []apiclient.OnboardingBatchMachineBody
	var bad []error
	seen := map[string]int{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(append(bad, err)...)
		}
		line, _ := r.FieldPos(0)
		if len(record) != len(header) {
			bad = append(bad, fmt.Errorf("line %d: has %d columns, not %d", line, len(record), len(header)))
			continue
		}
		row := apiclient.OnboardingBatchMachineBody{
			Hostname: strings.ToLower(strings.TrimSpace(record[at["hostname"]])),
			IpmiIp:   strings.TrimSpace(record[at["ipmi_ip"]]),
		}
		if problem := groupRow(&row, at, record); problem != "" {
			bad = append(bad, fmt.Errorf("line %d: %s", line, problem))
		}
		for _, problem := range machineProblems(&row, line, seen) {
			bad = append(bad, fmt.Errorf("line %d: %s", line, problem))
		}
		rows = append(rows, row)
	}
	switch {
	case len(bad) > 0:
		return nil, errors.Join(bad...)
	case len(rows) == 0:
		return nil, errors.New("it has no rows")
	case len(rows) > mostMachines:
		return nil, fmt.Errorf("it has %d rows; split it into files of at most %d", len(rows), mostMachines)
	}
	return rows, nil
}

// groupRow reads rack, pool and labels of a row. Labels are written key=value;key=value.
func groupRow(row *apiclient.OnboardingBatchMachineBody, at map[string]int, record []string) (problem string) {
	cell := func(name string) *string {
		i, there := at[name]
		if !there || strings.TrimSpace(record[i]) == "" {
			return nil
		}
		text := strings.TrimSpace(record[i])
		return &text
	}
	row.Rack, row.Pool = cell("rack"), cell("pool")
	written := cell("labels")
	if written == nil {
		return ""
	}
	labels := map[string]string{}
	for word := range strings.SplitSeq(*written, ";") {
		key, value, found := strings.Cut(strings.TrimSpace(word), "=")
		if !found {
			return fmt.Sprintf("the label %q must be key=value; separate several with ;", word)
		}
		labels[key] = value
	}
	row.Labels = &labels
	return ""
}

// machineColumns finds the columns, in any order, and refuses others by name.
func machineColumns(header []string) (map[string]int, error) {
	at := map[string]int{}
	var bad []error
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		_, twice := at[name]
		switch {
		case !slices.Contains(append(otherColumns, neededColumns...), name):
			hint := elsewhere[name]
			if strings.HasPrefix(name, "roce") {
				hint = elsewhere["ipv4_cidr"]
			}
			bad = append(bad, fmt.Errorf("line 1: the column %q cannot be used%s", name, prefixed(": ", hint)))
		case twice:
			bad = append(bad, fmt.Errorf("line 1: the column %s appears twice", name))
		}
		at[name] = i
	}
	for _, name := range neededColumns {
		if _, there := at[name]; !there {
			bad = append(bad, fmt.Errorf("line 1: the column %s is missing", name))
		}
	}
	return at, errors.Join(bad...)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

var hostnameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// machineProblems says what is wrong with one row, and brings its address into its normal
// form. seen has the line of each name and address so far.
func machineProblems(row *apiclient.OnboardingBatchMachineBody, line int, seen map[string]int) []string {
	var bad []string
	if len(row.Hostname) > 253 || !hostnameForm.MatchString(row.Hostname) {
		bad = append(bad, fmt.Sprintf("%q is not a host name", row.Hostname))
	}
	addr, err := netip.ParseAddr(row.IpmiIp)
	switch {
	case err != nil || addr.Zone() != "":
		bad = append(bad, fmt.Sprintf("%q is not an IP address", row.IpmiIp))
	case !addr.Unmap().IsGlobalUnicast():
		bad = append(bad, row.IpmiIp+" is not an address at which a BMC can be reached")
	default:
		row.IpmiIp = addr.Unmap().String()
	}
	for _, value := range []string{row.Hostname, row.IpmiIp} {
		if first, twice := seen[value]; twice && value != "" {
			bad = append(bad, fmt.Sprintf("%s is already in line %d", value, first))
			continue
		}
		seen[value] = line
	}
	return bad
}
