package rackcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Command returns `rack`, to be mounted below the command for simulators.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use: "rack", Short: "Use the virtual machines of gpuaas up --rack lxd|process",
		Long: "The machines live as long as the gpuaas up that holds them, and come back with its next start.\n" +
			"A fresh LXD machine becomes a node like this:\n\n" +
			"  gpuaas sim rack add m1\n" +
			"  gpuaas node add m1 --sku h200-sxm-baremetal-8g --region lab | gpuaas sim rack exec m1 -- sh\n\n" +
			"A machine of either kind that is a node from its first boot:\n\n" +
			"  gpuaas node add m2 --sku h200-sxm-baremetal-8g --region lab --cloud-init | gpuaas sim rack add m2 --user-data -",
	}
	p := &client{}
	c.PersistentFlags().StringVar(&p.state, "state", cmp.Or(os.Getenv("GPUAAS_STATE"), ".gpuaas"),
		"state folder of the gpuaas up that holds the rack (GPUAAS_STATE)")
	c.AddCommand(p.addCommand(), p.listCommand(), p.execCommand(),
		p.actCommand("start", "Switch a machine on", http.MethodPost, "/start"),
		p.actCommand("stop", "Shut a machine down", http.MethodPost, "/stop"),
		p.actCommand("kill", "Cut the power of a machine", http.MethodPost, "/kill"),
		p.actCommand("remove", "Delete a machine and its disk", http.MethodDelete, ""))
	return c
}

// client talks to the process that holds the rack.
type client struct{ state string }

func (p *client) ask(ctx context.Context, method, path string, in, out any) error {
	socket := Socket(p.state)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(in); err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://rack"+path, &body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: dial}}).Do(req)
	if err != nil {
		return fmt.Errorf("nobody serves a rack at %s: %w (start gpuaas up --rack lxd or --rack process, or name its "+
			"folder with --state)", socket, err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(content)))
	}
	return json.Unmarshal(content, out)
}

func (p *client) addCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "add NAME", Short: "Make a machine and wait until it has booted", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := addRequest{Name: args[0], Wait: true}
			var err error
			switch file {
			case "":
			case "-":
				in.UserData, err = io.ReadAll(c.InOrStdin())
			default:
				in.UserData, err = os.ReadFile(file)
			}
			if err != nil {
				return fmt.Errorf("read user data: %w", err)
			}
			var m machineView
			if err := p.ask(c.Context(), http.MethodPost, "/machines", in, &m); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "machine %s runs at %s\n", m.Name, m.Address)
			return err
		},
	}
	c.Flags().StringVar(&file, "user-data", "", "file with the payload of its first boot, - for standard input")
	return c
}

func (p *client) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the machines", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var machines []machineView
			if err := p.ask(c.Context(), http.MethodGet, "/machines", nil, &machines); err != nil {
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "NAME\tPOWER\tADDRESS")
			for _, m := range machines {
				power := "off"
				if m.Running {
					power = "on"
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", m.Name, power, cmp.Or(m.Address, "-"))
			}
			return w.Flush()
		},
	}
}

func (p *client) execCommand() *cobra.Command {
	return &cobra.Command{
		Use: "exec NAME -- PROGRAM [ARGUMENT...]", Short: "Run a program on a machine as root", Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			in := execRequest{Argv: args[1:]}
			if piped(c.InOrStdin()) {
				var err error
				if in.Stdin, err = io.ReadAll(c.InOrStdin()); err != nil {
					return fmt.Errorf("read standard input: %w", err)
				}
			}
			var out execAnswer
			if err := p.ask(c.Context(), http.MethodPost, "/machines/"+args[0]+"/exec", in, &out); err != nil {
				return err
			}
			_, _ = io.WriteString(c.OutOrStdout(), out.Output)
			_, _ = io.WriteString(c.ErrOrStderr(), out.Errors)
			if out.Code != 0 {
				return fmt.Errorf("%s ended with %d on machine %s", args[1], out.Code, args[0])
			}
			return nil
		},
	}
}

// piped says whether the input is not a terminal.
func piped(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

func (p *client) actCommand(word, short, method, suffix string) *cobra.Command {
	return &cobra.Command{
		Use: word + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var nothing struct{}
			return p.ask(c.Context(), method, "/machines/"+args[0]+suffix, nil, &nothing)
		},
	}
}
