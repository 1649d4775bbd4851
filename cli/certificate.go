package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
	"gpuaas/contract/certificate"
)

func (a *app) certificateColumns() []column[apiclient.CertificateView] {
	type view = apiclient.CertificateView
	return []column[view]{
		{title: "ID", text: func(v view) string { return v.CertificateId.String() }},
		{title: "KIND", text: func(v view) string { return string(v.Kind) }},
		{title: "HOSTNAME", text: func(v view) string { return v.Hostname }},
		{title: "NUMBER", text: func(v view) string { return strconv.FormatInt(v.Seq, 10) }},
		{title: "MODE", text: func(v view) string { return string(v.Mode) }},
		{title: "ISSUED", text: func(v view) string { return a.when(v.IssuedAt) }},
		{title: "NODE", text: func(v view) string { return v.NodeId.String() }},
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
			f := addListFlags(cmd, 20)
			node := cmd.Flags().String("node", "", "only of this node: its id or hostname")
			kind := cmd.Flags().String("kind", "", "only of this kind: certificate or handover_receipt")
			complete(cmd, "kind", string(certificate.Certificate), string(certificate.HandoverReceipt))
			return func(s *session, _ []string) error {
				fetch := func(p page) (apiclient.Answer, error) {
					return s.api.ListCertificatesWithResponse(s.ctx, &apiclient.ListCertificatesParams{
						Cursor: p.cursor, PageSize: p.size, Kind: givenAs[apiclient.ListCertificatesParamsKind](s, "kind", kind),
					})
				}
				if *node != "" {
					nodeID, err := s.nodeID(*node)
					if err != nil {
						return err
					}
					fetch = func(p page) (apiclient.Answer, error) {
						return s.api.ListNodeCertificatesWithResponse(s.ctx, nodeID, &apiclient.ListNodeCertificatesParams{
							Cursor: p.cursor, PageSize: p.size, Kind: givenAs[apiclient.ListNodeCertificatesParamsKind](s, "kind", kind),
						})
					}
				}
				return list(s, f, listing[apiclient.CertificateView]{columns: a.certificateColumns(), fetch: fetch})
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
		use: "show CERTIFICATE", short: "Show a certificate or handover receipt", args: exactly("CERTIFICATE"), operations: []string{"get-certificate"},
		long: "Text and HTML are for people and are not signed. JSON is the signed file itself, byte by byte: keep it, and\n" +
			"verify it with gpuaas certificate verify.",
		example: "  gpuaas certificate show 0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c --format json > certificate.json\n" +
			"  gpuaas certificate show 0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c --format html > certificate.html",
		flags: func(cmd *cobra.Command) action {
			format := cmd.Flags().String("format", "", "how to show it: text, html or json (default: text, or what --output says)")
			complete(cmd, "format", formatText, formatHTML, formatJSON)
			return func(s *session, args []string) error {
				as, err := s.certificateFormat(*format)
				if err != nil {
					return err
				}
				certificateID, err := s.idOf("certificate", args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.api.GetCertificateWithResponse(s.ctx, certificateID))
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
	case formatText, formatHTML, formatJSON:
		return asked, nil
	case "":
		f, err := s.format()
		if f == formatTable {
			f = formatText
		}
		return f, err
	}
	return "", usage(s.cmd, "there is no format %q: use text, html or json", asked)
}

func (s *session) showCertificate(format string, raw json.RawMessage) error {
	out := s.program.Out
	switch format {
	case formatYAML:
		return printRaw(out, format, raw)
	case formatJSON:
		if s.terminal(out) {
			return write(out, harmlessJSON(string(raw))) // nobody verifies what a terminal shows
		}
		return write(out, string(raw))
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
		return n, fmt.Errorf("%w: %w", errOutput, err)
	}
	return n, nil
}

func keyColumns() []column[certificate.Key] {
	type key = certificate.Key
	return []column[key]{
		{title: "KEY", text: func(k key) string { return k.KeyID }},
		{title: "ALGORITHM", text: func(k key) string { return k.Algorithm }},
		{title: "FINGERPRINT", text: func(k key) string { return k.Fingerprint() }},
	}
}

func (a *app) certificateKeysCommand() *cobra.Command {
	return a.verb(verb{
		use: "keys", short: "Show the public keys that certificates are verified with", operations: []string{"list-certificate-keys"},
		long: "With -o json it is the file that gpuaas certificate verify takes. Whoever verifies must have got it from a place\n" +
			"they trust; fingerprints are there to be compared.",
		example: "  gpuaas certificate keys -o json > keys.json",
		run: func(s *session, _ []string) error {
			raw, err := apiclient.Read(s.api.ListCertificateKeysWithResponse(s.ctx))
			if err != nil {
				return err
			}
			format, err := s.format()
			if err != nil {
				return err
			}
			if format != formatTable {
				return printRaw(s.program.Out, format, raw)
			}
			keys, err := certificate.ParseKeys(raw)
			if err != nil {
				return fmt.Errorf("understand the answer of the control plane: %w", err)
			}
			rows := make([]object[certificate.Key], len(keys))
			for i, k := range keys {
				rows[i].value = k
			}
			return printTable(s.program.Out, keyColumns(), rows, !s.flags.noHeaders)
		},
	})
}
