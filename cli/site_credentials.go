package cli

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

func (a *app) siteCredentialsCommand() *cobra.Command {
	return a.noun(noun{use: "credentials", short: "What a site is entered with"},
		a.verb(verb{
			use: "set SITE", short: "Write credentials of a site", args: frame.Exactly("SITE"),
			operations: []string{"set-maas-site-credentials"},
			long: "Secrets are read from files, - for standard input, never from the command line. They are kept in the\n" +
				"secrets engine and cannot be read back. MAAS is asked before a token is kept: one that it does not\n" +
				"accept as an administrator's is refused, and nothing is written.\n\n" +
				"The file with BMC credentials holds one line: USER:PASSWORD.",
			example: "  gpuaas site credentials set dc1 --maas-token-file token.txt --power-file bmc.txt " +
				"--deploy-password-file -",
			flags: func(cmd *cobra.Command) action {
				f := cmd.Flags()
				token := f.String("maas-token-file", "", "file with the API key of a MAAS administrator")
				power := addPowerFlags(cmd, "file with the default BMC credentials")
				deploy := f.String("deploy-password-file", "", "file with the password of the deploy user")
				for _, name := range []string{"maas-token-file", "deploy-password-file"} {
					_ = cmd.MarkFlagFilename(name) // defined above
				}
				return func(s *session, args []string) error { return a.setCredentials(s, args[0], *token, power, *deploy) }
			},
		}),
	)
}

func (a *app) setCredentials(s *session, site, tokenFile string, power *powerFlags, deployFile string) error {
	if err := s.Anything("maas-token-file", "power-file", "deploy-password-file"); err != nil {
		return err
	}
	inputs := slices.DeleteFunc([]string{tokenFile, power.file, deployFile}, func(file string) bool { return file != "-" })
	if len(inputs) > 1 {
		return failure.Misuse(s.Cmd, "standard input can hold only one of them")
	}
	var body apiclient.SiteCredentialsBody
	var err error
	if body.ApiToken, err = s.secretLine(tokenFile); err != nil {
		return err
	}
	if body.DeployPassword, err = s.secretLine(deployFile); err != nil {
		return err
	}
	if body.Power, err = s.power(power); err != nil {
		return err
	}
	id, err := s.siteID(site)
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.siteColumns())(
		s.API.SetMaasSiteCredentialsWithResponse(s.Ctx, id, &apiclient.SetMaasSiteCredentialsParams{}, body))
}

// secretLine is the one line of a file; nil when no file is named. What it
// holds is never part of an error.
func (s *session) secretLine(file string) (*string, error) {
	const longest = 4096
	if file == "" {
		return nil, nil
	}
	in := s.Program.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, failure.New(failure.Usage, "secret_unreadable", "name a file that you can read, or - for standard input",
				"read secret: %v", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, longest+1))
	if err != nil {
		return nil, failure.New(failure.Usage, "secret_unreadable", "name a file that you can read, or - for standard input",
			"read secret: %v", err)
	}
	line := strings.TrimRight(string(b), "\r\n")
	if line == "" || len(line) > longest || strings.ContainsAny(line, "\r\n") {
		return nil, failure.New(failure.Usage, "secret_unreadable",
			"the file must hold the secret on one line and nothing else", "%s does not hold one line", file)
	}
	return &line, nil
}
