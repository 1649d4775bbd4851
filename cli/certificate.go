package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/certificate"
)

func (a *app) certificateColumns() []table.Column[apiclient.CertificateView] {
	type view = apiclient.CertificateView
	return []table.Column[view]{
		{Title: "ID", Text: func(v view) string { return v.CertificateId.String() }},
		{Title: "KIND", Text: func(v view) string { return string(v.Kind) }},
		{Title: "HOSTNAME", Text: func(v view) string { return v.Hostname }},
		{Title: "NUMBER", Wide: true, Text: func(v view) string { return strconv.FormatInt(v.Seq, 10) }},
		{Title: "MODE", Text: func(v view) string { return string(v.Mode) }},
		{Title: "OUTCOME", Text: func(v view) string { return string(v.Outcome) }},
		ago(a, "ISSUED", func(v view) time.Time { return v.IssuedAt }),
		{Title: "NODE", Wide: true, Text: func(v view) string { return v.NodeId.String() }},
	}
}

func (a *app) certificateCommand() *cobra.Command {
	return a.noun(noun{
		use: "certificate", short: "Evidence of how nodes were cleaned, signed", group: groupMachines,
		long: "A certificate is issued after a reimage, a retirement or a full decommission, a handover receipt after a\n" +
			"soft reset. Each states what was observed on a node, by whom and when, and names the one before it of the\n" +
			"same node. Whoever has the file and the public keys can verify it without the control plane.",
	},
		a.certificateListCommand(), a.certificateShowCommand(), a.certificateKeysCommand(), a.certificateVerifyCommand())
}

func (a *app) certificateListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List certificates and handover receipts, newest first", aliases: []string{"ls"},
		operations: []string{"list-certificates", "list-node-certificates"},
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 20)
			node := cmd.Flags().String("node", "", "only of this node: its id or hostname")
			kind := cmd.Flags().String("kind", "", "only of this kind: certificate or handover_receipt")
			outcome := cmd.Flags().String("outcome", "", "only with this outcome: clean, or with_gaps for those that name downgrades")
			frame.Complete(cmd, "outcome", apiclient.Words("CertificateView.outcome")...)
			frame.Complete(cmd, "kind", string(certificate.Certificate), string(certificate.HandoverReceipt))
			return func(s *session, _ []string) error {
				fetch := func(p listing.Page) (apiclient.Answer, error) {
					return s.API.ListCertificatesWithResponse(s.Ctx, &apiclient.ListCertificatesParams{
						Cursor: p.Cursor, PageSize: p.Size, Kind: frame.GivenAs[apiclient.ListCertificatesParamsKind](s.Session, "kind",
							kind),
						Outcome: frame.GivenAs[apiclient.ListCertificatesParamsOutcome](s.Session, "outcome", outcome),
					})
				}
				if *node != "" {
					nodeID, err := s.nodeID(*node)
					if err != nil {
						return err
					}
					fetch = func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListNodeCertificatesWithResponse(s.Ctx, nodeID, &apiclient.ListNodeCertificatesParams{
							Cursor: p.Cursor, PageSize: p.Size, Kind: frame.GivenAs[apiclient.ListNodeCertificatesParamsKind](s.Session,
								"kind", kind),
							Outcome: frame.GivenAs[apiclient.ListNodeCertificatesParamsOutcome](s.Session, "outcome", outcome),
						})
					}
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.CertificateView]{
					Columns: a.certificateColumns(),
					Fetch:   fetch,
				})
			}
		},
	})
}

const (
	formatText = "text"
	formatHTML = "html"
)

func (a *app) certificateShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show CERTIFICATE", short: "Show a certificate or handover receipt", args: frame.Exactly("CERTIFICATE"),
		operations: []string{"get-certificate"},
		long: "Text and HTML are for people and are not signed. JSON is the signed file itself, byte by byte: keep it, and\n" +
			"verify it with gpuaas certificate verify.",
		example: "  gpuaas certificate show 0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c --format json > certificate.json\n" +
			"  gpuaas certificate show 0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c --format html > certificate.html",
		flags: func(cmd *cobra.Command) action {
			format := cmd.Flags().String("format", "",
				"how to show it: text, html or json (default: text, or what --output says)")
			frame.Complete(cmd, "format", formatText, formatHTML, output.JSON)
			return func(s *session, args []string) error {
				as, err := s.certificateFormat(*format)
				if err != nil {
					return err
				}
				certificateID, err := s.IDOf("a certificate", args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.GetCertificateWithResponse(s.Ctx, certificateID))
				if err != nil {
					return err
				}
				return s.showCertificate(as, raw)
			}
		},
	})
}

func (s *session) certificateFormat(asked string) (string, error) {
	switch asked {
	case formatText, formatHTML, output.JSON:
		return asked, nil
	case "":
		f, err := s.Format()
		if f == output.Table {
			f = formatText
		}
		return f, err
	}
	return "", failure.Misuse(s.Cmd, "there is no format %q: use text, html or json", asked)
}

func (s *session) showCertificate(format string, raw json.RawMessage) error {
	out := s.Program.Out
	switch format {
	case output.YAML:
		return output.Print(out, format, raw)
	case output.JSON:
		if s.Terminal(out) {
			return output.Write(out, output.HarmlessJSON(string(raw))) // nobody verifies what a terminal shows
		}
		return output.Write(out, string(raw))
	}
	signed, err := certificate.Read(raw)
	if err != nil {
		return fmt.Errorf("understand the certificate: %w", err)
	}
	render := signed.Text
	if format == formatHTML {
		render = signed.HTML
	}
	return render(outputWriter{out})
}

// outputWriter says that it was the output that could not be written.
type outputWriter struct{ w io.Writer }

func (o outputWriter) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		return n, fmt.Errorf("%w: %w", output.ErrOutput, err)
	}
	return n, nil
}

func keyColumns() []table.Column[certificate.Key] {
	type key = certificate.Key
	return []table.Column[key]{
		{Title: "KEY", Text: func(k key) string { return k.KeyID }},
		{Title: "ALGORITHM", Text: func(k key) string { return k.Algorithm }},
		{Title: "FINGERPRINT", Text: func(k key) string { return k.Fingerprint() }},
	}
}

func (a *app) certificateKeysCommand() *cobra.Command {
	return a.verb(verb{
		use: "keys", short: "Show the public keys that certificates are verified with",
		operations: []string{"list-certificate-keys"},
		long: "With -o json it is the file that gpuaas certificate verify takes. Whoever verifies must have got it from a " +
			"place\n" +
			"they trust; fingerprints are there to be compared.",
		example: "  gpuaas certificate keys -o json > keys.json",
		run: func(s *session, _ []string) error {
			raw, err := apiclient.Read(s.API.ListCertificateKeysWithResponse(s.Ctx))
			if err != nil {
				return err
			}
			format, err := s.Format()
			if err != nil {
				return err
			}
			if format != output.Table {
				return output.Print(s.Program.Out, format, raw)
			}
			keys, err := certificate.ParseKeys(raw)
			if err != nil {
				return fmt.Errorf("understand the answer of the control plane: %w", err)
			}
			rows := make([]output.Object[certificate.Key], len(keys))
			for i, k := range keys {
				rows[i].Value = k
			}
			return table.Print(s.Program.Out, keyColumns(), rows, !s.Flags.NoHeaders, s.Wide())
		},
	})
}
