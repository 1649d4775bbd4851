package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

type versionView struct {
	Client string `json:"client"`
	Server string `json:"server,omitempty"`
}

func versionColumns() []table.Column[versionView] {
	return []table.Column[versionView]{
		{Title: "CLIENT", Text: func(v versionView) string { return v.Client }},
		{Title: "SERVER", Text: func(v versionView) string { return v.Server }},
	}
}

// versionCommand works without a control plane too, so it is not a verb.
func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version of this program and of the control plane", Args: cobra.NoArgs,
		Annotations: map[string]string{operations: "get-system-status"}, GroupID: groupWatching,
		Long: "Shows the version of this program and, where a control plane is chosen and you may read its\nstatus, of that.",
	}
	clientOnly := cmd.Flags().Bool("client", false, "do not ask the control plane")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versionView{Client: cmp.Or(a.Program.Version, "unknown")}
		var failed error
		if !*clientOnly {
			v.Server, failed = a.serverVersion(cmd)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode versions: %w", err)
		}
		return errors.Join(failed, frame.PrintOne(a.App, versionColumns(), raw))
	}
	return cmd
}

// serverVersion is empty when there is no control plane, or it is not for the caller to know.
func (a *app) serverVersion(cmd *cobra.Command) (string, error) {
	s, err := a.connect(cmd)
	if f := (*failure.Error)(nil); errors.As(err, &f) && f.Code == "no_context" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	status, err := frame.Fetch[apiclient.SystemStatus](s.API.GetSystemStatusWithResponse(s.Ctx))
	if p := (*apiclient.Problem)(nil); errors.As(err, &p) && failure.ExitOf(p.Status) == failure.Forbidden {
		return "", nil
	}
	return status.Version, err
}
