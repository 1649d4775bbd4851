package job

import (
	"fmt"
	"strings"
)

// CodesPage is the page about the codes that jobs fail with, made of what the
// stages declare.
func CodesPage() string {
	var page strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	say("# The codes that jobs fail with\n")
	say("Made from the codes that stages declare (`stage_<name>.go` and `codes*.go` in `controlplane/internal/work`) by")
	say("`make gen`; do not edit.\n")
	say("A job that failed shows its code as `error_code`; `gpuaas onboarding explain` and `gpuaas decommission explain`")
	say("show what is below, and what is known of this case. A code without a class is given one by what caused it.")
	say("A code that is not here comes from a fault or from an agent, and is explained by its class.\n")
	say("| Code | Class | Usually behind it | What to do | Runbook |")
	say("|---|---|---|---|---|")
	for _, c := range Codes() {
		class := "–"
		if c.Class != "" {
			class = fmt.Sprintf("`%s`", c.Class)
		}
		remedy := c.Remedy
		if c.Rewind != "" {
			remedy += fmt.Sprintf("; the job is put back to `%s`", c.Rewind)
		}
		say("| `%s` | %s | %s | %s | [%s](runbooks/%s.md) |", c.Name, class, c.Cause, remedy,
			strings.ReplaceAll(c.Runbook, "-", " "), c.Runbook)
	}
	return page.String()
}
