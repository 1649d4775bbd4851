package cli

import (
	"github.com/spf13/cobra"
)

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean",
		Long: `Exit codes, for scripts:

    0  done; or a watch of something that has no end was ended with Ctrl-C
    1  something unexpected happened
    2  the command or its input is wrong; repeating it as it is cannot help
    3  not signed in, or the token is no longer good: gpuaas login
    4  signed in, but not allowed
    5  it does not exist, or you must not know that it does
    6  the present state does not allow it, or somebody else changed it meanwhile
    7  the control plane cannot be reached, is not ready, or did not answer in time;
       repeating may help
    8  what was waited for ended unsuccessfully, such as a failed self-check
    9  it destroys something, and nobody was there to be asked: repeat it with --yes
  130  interrupted before the outcome was known: Ctrl-C while a job is watched or waited for

Errors go to standard error; with -o json as one JSON object, which has the fields
code, detail, remedy, correlation_id and exit_code.`,
	}
}

func environmentTopic() *cobra.Command {
	return &cobra.Command{
		Use: "environment", Short: "Environment variables and files that are read",
		Long: `Environment variables:

  GPUAAS_CONTEXT    the context to use, as with --context
  GPUAAS_URL        the control plane to talk to, instead of that of the context.
                    The token of a context is sent to its own control plane only:
                    set GPUAAS_TOKEN too. --context sets both aside
  GPUAAS_TOKEN      the token to use, instead of that of the context
  GPUAAS_CA_FILE    certificates (PEM) to trust beside those of the system
  GPUAAS_OUTPUT     how to print, as with --output
  GPUAAS_STATE      the state folder of gpuaas up, admin recover and sim, as with --state
  XDG_CONFIG_HOME   where contexts are kept: gpuaas/config.yaml below it;
                    ~/.config when not set

A token is never taken from the command line, which other users of a machine can read.`,
	}
}
