package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// mostRows is how many rows one request may hold, by the contract.
const mostRows = 5000

func (a *app) roceColumns() []table.Column[apiclient.SiteAssignmentView] {
	type row = apiclient.SiteAssignmentView
	return []table.Column[row]{
		{Title: "HOSTNAME", Text: func(v row) string { return v.Hostname }},
		{Title: "INTERFACE", Text: func(v row) string { return v.Interface }},
		{Title: "ADDRESS", Text: func(v row) string { return v.Ipv4Cidr }},
		{Title: "MTU", Text: func(v row) string {
			if v.Mtu == nil {
				return ""
			}
			return strconv.Itoa(int(*v.Mtu))
		}},
		{Title: "ID", Text: func(v row) string { return v.AssignmentId.String() }},
	}
}

func upsertedColumns() []table.Column[apiclient.SiteUpsertedView] {
	type done = apiclient.SiteUpsertedView
	return []table.Column[done]{
		{Title: "CREATED", Text: func(v done) string { return strconv.FormatInt(v.Created, 10) }},
		{Title: "UPDATED", Text: func(v done) string { return strconv.FormatInt(v.Updated, 10) }},
		{Title: "UNCHANGED", Text: func(v done) string { return strconv.FormatInt(v.Unchanged, 10) }},
	}
}

func (a *app) siteRoCECommand() *cobra.Command {
	return a.noun(noun{use: "roce", short: "Addresses of RoCE interfaces"},
		a.verb(verb{
			use: "list SITE", short: "List the addresses of RoCE interfaces", aliases: []string{"ls"},
			args: frame.Exactly("SITE"), operations: []string{"list-roce-assignments"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				hostname := cmd.Flags().String("hostname", "", "only those of this node")
				iface := cmd.Flags().String("interface", "", "only those of interfaces of this name")
				return siteVerb(func(s *session, site types.UUID) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SiteAssignmentView]{
						Columns: a.roceColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListRoceAssignmentsWithResponse(s.Ctx, site, &apiclient.ListRoceAssignmentsParams{
								Cursor: p.Cursor, PageSize: p.Size, Hostname: frame.Given(s.Session, "hostname", hostname),
								Interface: frame.Given(s.Session, "interface", iface),
							})
						},
					})
				})
			},
		}),
		a.verb(verb{
			use: "import SITE FILE", short: "Write addresses from a CSV file", args: frame.Exactly("SITE", "FILE"),
			operations: []string{"upsert-roce-assignments"},
			long: "The first line names the columns, in any order: hostname, interface, ipv4_cidr and, if wanted, mtu.\n" +
				"All rows are written or none. A row replaces the one of the same host and interface; others stay.\n" +
				"FILE - is standard input.",
			example: "  gpuaas site roce import dc1 roce_ips.csv",
			run:     importRoCE,
		}),
		a.verb(verb{
			use: "delete SITE ID", short: "Remove the address of an interface", aliases: []string{"rm"},
			args: frame.Exactly("SITE", "ID"), operations: []string{"delete-roce-assignment"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a RoCE assignment", args[1])
				if err != nil {
					return err
				}
				site, err := s.siteID(args[0])
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "the address is deleted")(
					s.API.DeleteRoceAssignmentWithResponse(s.Ctx, site, id, &apiclient.DeleteRoceAssignmentParams{}))
			},
		}),
	)
}

func importRoCE(s *session, args []string) error {
	in := s.Program.In
	if args[1] != "-" {
		f, err := os.Open(args[1])
		if err != nil {
			return failure.New(failure.Usage, "csv_unreadable", "name a file that you can read, or - for standard input",
				"read CSV: %v", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	rows, err := readRoCE(in)
	if err != nil {
		return failure.New(failure.Usage, "csv_invalid", "correct the file; nothing was written", "%s: %v", args[1], err)
	}
	site, err := s.siteID(args[0])
	if err != nil {
		return err
	}
	return frame.Show(s.Session, upsertedColumns())(
		s.API.UpsertRoceAssignmentsWithResponse(s.Ctx, site, &apiclient.UpsertRoceAssignmentsParams{},
			apiclient.SiteAssignmentsBody{Items: rows}))
}

// readRoCE reads all rows, or says what is wrong, by line. The control plane
// knows more rules; these are the ones that need the file to be told well.
func readRoCE(in io.Reader) ([]apiclient.SiteAssignmentRow, error) {
	r := csv.NewReader(in)
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, 0
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("it has no line with the names of the columns: %w", err)
	}
	at, err := csvColumns(header)
	if err != nil {
		return nil, err
	}
	var rows []apiclient.SiteAssignmentRow
	var bad []error
	first := map[string]int{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		row, err := roceRow(record, at)
		key := row.Hostname + " " + row.Interface
		if earlier, twice := first[key]; err == nil && twice {
			err = fmt.Errorf("%s of %s is in line %d already", row.Interface, row.Hostname, earlier)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		first[key] = line
		rows = append(rows, row)
	}
	switch {
	case len(bad) > 20:
		bad = append(bad[:20], fmt.Errorf("and %d more", len(bad)-20))
	case len(bad) == 0 && len(rows) == 0:
		return nil, errors.New("it has no rows")
	case len(rows) > mostRows:
		return nil, fmt.Errorf("it has %d rows; split it into files of at most %d", len(rows), mostRows)
	}
	return rows, errors.Join(bad...)
}

func csvColumns(header []string) (map[string]int, error) {
	at := map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if !slices.Contains([]string{"hostname", "interface", "ipv4_cidr", "mtu"}, name) {
			return nil, fmt.Errorf("line 1: there is no column %q", name)
		}
		if _, twice := at[name]; twice {
			return nil, fmt.Errorf("line 1: the column %s appears twice", name)
		}
		at[name] = i
	}
	for _, name := range []string{"hostname", "interface", "ipv4_cidr"} {
		if _, there := at[name]; !there {
			return nil, fmt.Errorf("line 1: the column %s is missing", name)
		}
	}
	return at, nil
}

func roceRow(record []string, at map[string]int) (apiclient.SiteAssignmentRow, error) {
	cell := func(name string) string { return strings.TrimSpace(record[at[name]]) }
	row := apiclient.SiteAssignmentRow{
		Hostname: strings.ToLower(cell("hostname")), Interface: cell("interface"),
		Ipv4Cidr: cell("ipv4_cidr"),
	}
	if row.Hostname == "" || row.Interface == "" {
		return row, errors.New("hostname and interface must not be empty")
	}
	if prefix, err := netip.ParsePrefix(row.Ipv4Cidr); err != nil || !prefix.Addr().Is4() {
		return row, fmt.Errorf("%q is not an IPv4 address with prefix length, such as 172.30.9.61/31", row.Ipv4Cidr)
	}
	if i, there := at["mtu"]; there && strings.TrimSpace(record[i]) != "" {
		n, err := strconv.ParseInt(strings.TrimSpace(record[i]), 10, 32)
		if err != nil || n < 1280 || n > 9216 {
			return row, fmt.Errorf("%q is not an MTU of 1280 to 9216", record[i])
		}
		row.Mtu = frame.Ptr(int32(n))
	}
	return row, nil
}
