package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// policyKeys are what a policy settles, as flags name them.
var policyKeys = []string{
	"enabled", "max-concurrency", "timeout-seconds", "artifact-sources", "target-kinds", "require-signature",
	"max-artifact-bytes",
}

// settledText is what a level settles, in one line.
func settledText(v apiclient.PolicyLineView) string {
	var parts []string
	if v.HardDeny != nil && *v.HardDeny {
		parts = append(parts, "denied for good")
	}
	if v.Enabled != nil {
		parts = append(parts, "enabled "+yesNo(*v.Enabled))
	}
	for _, n := range []struct {
		name  string
		value *int64
	}{
		{"max-concurrency", v.MaxConcurrency},
		{"timeout-seconds", v.TimeoutSeconds},
		{"max-artifact-bytes", v.MaxArtifactSizeBytes},
	} {
		if n.value != nil {
			parts = append(parts, n.name+" "+strconv.FormatInt(*n.value, 10))
		}
	}
	if v.AllowedArtifactSources != nil {
		parts = append(parts, "artifact-sources "+listText(*v.AllowedArtifactSources))
	}
	if v.AllowedTargetKinds != nil {
		parts = append(parts, "target-kinds "+listText(*v.AllowedTargetKinds))
	}
	if v.RequireSignatureVerification != nil {
		parts = append(parts, "require-signature "+yesNo(*v.RequireSignatureVerification))
	}
	return strings.Join(parts, ", ")
}

func listText(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, "+")
}

func (a *app) policyLineColumns() []table.Column[apiclient.PolicyLineView] {
	type line = apiclient.PolicyLineView
	return []table.Column[line]{
		{Title: "OPERATION", Text: func(v line) string { return v.OperationType }},
		{Title: "SCOPE", Text: func(v line) string { return string(v.Scope) }},
		{Title: "SETTLES", Long: true, Text: settledText},
		{Title: "REASON", Long: true, Text: func(v line) string { return text(v.Reason) }},
		ago(a, "UPDATED", func(v line) time.Time { return v.UpdatedAt }),
	}
}

func (a *app) decisionColumns() []table.Column[apiclient.PolicyDecisionView] {
	type decision = apiclient.PolicyDecisionView
	return []table.Column[decision]{
		{Title: "KEY", Text: func(v decision) string { return string(v.Key) }},
		{Title: "VALUE", Long: true, Text: func(v decision) string { return v.Value }},
		{Title: "DECIDED BY", Text: func(v decision) string {
			if of := text(v.OperationType); of != "" {
				return string(v.Scope) + " (" + of + ")"
			}
			return string(v.Scope)
		}},
		{Title: "WHY", Long: true, Text: func(v decision) string {
			if reason := text(v.Reason); reason != "" {
				return v.Rule + ": " + reason
			}
			return v.Rule
		}},
		{Title: "WHAT EACH LEVEL SAID", Wide: true, Text: func(v decision) string {
			said := make([]string, len(v.Said))
			for i, s := range v.Said {
				said[i] = string(s.Scope) + " " + s.Value
			}
			return strings.Join(said, "; ")
		}},
	}
}

// policyLevel is one level, as commands reach it.
type policyLevel struct {
	get    func(kind string) (apiclient.Answer, error)
	list   func(p listing.Page) (apiclient.Answer, error)
	put    func(kind string, version int64, body apiclient.PolicyGlobalBody) (apiclient.Answer, error)
	remove func(kind string) (apiclient.Answer, error)
}

// levelFlags name a level.
type levelFlags struct {
	scope
	global bool
}

func addLevelFlags(cmd *cobra.Command) *levelFlags {
	l := &levelFlags{}
	l.addProject(cmd)
	cmd.Flags().BoolVar(&l.global, "global", false, "the platform itself, for those with a role there")
	return l
}

func (l *levelFlags) level(s *session) (policyLevel, error) {
	switch {
	case l.global && (l.project != "" || l.tenant != ""):
		return policyLevel{}, failure.Misuse(s.Cmd, "give either --global, or --tenant or --project")
	case l.global:
		return globalPolicies(s), nil
	case l.project != "":
		return projectPolicies(s, l.scope)
	case l.tenant != "":
		return tenantPolicies(s, l.tenant)
	}
	return policyLevel{}, failure.Misuse(s.Cmd, "name the level with --project, --tenant or --global")
}

func globalPolicies(s *session) policyLevel {
	return policyLevel{
		get: func(kind string) (apiclient.Answer, error) {
			return s.API.GetGlobalOperationPolicyWithResponse(s.Ctx, kind)
		},
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListGlobalOperationPoliciesWithResponse(s.Ctx,
				&apiclient.ListGlobalOperationPoliciesParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(kind string, version int64, body apiclient.PolicyGlobalBody) (apiclient.Answer, error) {
			return s.API.PutGlobalOperationPolicyWithResponse(s.Ctx, kind,
				&apiclient.PutGlobalOperationPolicyParams{IfMatch: frame.ETag(version)}, body)
		},
		remove: func(kind string) (apiclient.Answer, error) {
			return s.API.DeleteGlobalOperationPolicyWithResponse(s.Ctx, kind, &apiclient.DeleteGlobalOperationPolicyParams{})
		},
	}
}

func tenantPolicies(s *session, name string) (policyLevel, error) {
	org, err := s.tenantID(name)
	return policyLevel{
		get: func(kind string) (apiclient.Answer, error) {
			return s.API.GetTenantOperationPolicyWithResponse(s.Ctx, org, kind)
		},
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListTenantOperationPoliciesWithResponse(s.Ctx, org,
				&apiclient.ListTenantOperationPoliciesParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(kind string, version int64, body apiclient.PolicyGlobalBody) (apiclient.Answer, error) {
			return s.API.PutTenantOperationPolicyWithResponse(s.Ctx, org, kind,
				&apiclient.PutTenantOperationPolicyParams{IfMatch: frame.ETag(version)}, narrowed(body))
		},
		remove: func(kind string) (apiclient.Answer, error) {
			return s.API.DeleteTenantOperationPolicyWithResponse(s.Ctx, org, kind,
				&apiclient.DeleteTenantOperationPolicyParams{})
		},
	}, err
}

func projectPolicies(s *session, c scope) (policyLevel, error) {
	project, err := s.projectID(c)
	return policyLevel{
		get: func(kind string) (apiclient.Answer, error) {
			return s.API.GetProjectOperationPolicyWithResponse(s.Ctx, project, kind)
		},
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListProjectOperationPoliciesWithResponse(s.Ctx, project,
				&apiclient.ListProjectOperationPoliciesParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(kind string, version int64, body apiclient.PolicyGlobalBody) (apiclient.Answer, error) {
			return s.API.PutProjectOperationPolicyWithResponse(s.Ctx, project, kind,
				&apiclient.PutProjectOperationPolicyParams{IfMatch: frame.ETag(version)}, narrowed(body))
		},
		remove: func(kind string) (apiclient.Answer, error) {
			return s.API.DeleteProjectOperationPolicyWithResponse(s.Ctx, project, kind,
				&apiclient.DeleteProjectOperationPolicyParams{})
		},
	}, err
}

// narrowed is a body without what only the platform may set.
func narrowed(b apiclient.PolicyGlobalBody) apiclient.PolicyBody {
	return apiclient.PolicyBody{
		Enabled: b.Enabled, MaxConcurrency: b.MaxConcurrency, TimeoutSeconds: b.TimeoutSeconds,
		AllowedArtifactSources: b.AllowedArtifactSources, AllowedTargetKinds: b.AllowedTargetKinds,
		RequireSignatureVerification: b.RequireSignatureVerification, MaxArtifactSizeBytes: b.MaxArtifactSizeBytes,
		Reason: b.Reason,
	}
}

func levelOperations(verb, noun string) []string {
	return []string{verb + "-global-" + noun, verb + "-tenant-" + noun, verb + "-project-" + noun}
}

func (a *app) operationPolicyCommand() *cobra.Command {
	return a.noun(noun{
		use: "policy", short: "What the platform, tenants and projects allow of operations",
		long: "A policy is about one type of operation, or * for all. Limits only get narrower from the platform to the\n" +
			"tenant to the project. Whether an operation is enabled, the most specific level decides, unless the platform\n" +
			"denies it for good.",
	},
		a.verb(verb{
			use: "show", short: "List the policies of a level", operations: levelOperations("list", "operation-policies"),
			flags: func(cmd *cobra.Command) action {
				l := addLevelFlags(cmd)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					level, err := l.level(s)
					if err != nil {
						return err
					}
					return listing.Print(s.Session, f, listing.Listing[apiclient.PolicyLineView]{
						Columns: a.policyLineColumns(), Fetch: level.list,
					})
				}
			},
		}),
		a.verb(verb{
			use: "explain TYPE", short: "Show what counts for an operation, and which level decided it",
			args: frame.Exactly("TYPE"), operations: levelOperations("get", "operation-policy"),
			example: "  gpuaas operation policy explain node.package.install --project acme/training",
			flags: func(cmd *cobra.Command) action {
				l := addLevelFlags(cmd)
				return func(s *session, args []string) error {
					level, err := l.level(s)
					if err != nil {
						return err
					}
					return a.explainPolicy(s)(level.get(args[0]))
				}
			},
		}),
		a.policySetCommand(), a.policyDocumentCommand(),
		a.verb(verb{
			use: "remove TYPE", short: "Remove the policy of a level", aliases: []string{"rm"},
			args: frame.Exactly("TYPE"), operations: levelOperations("delete", "operation-policy"),
			flags: func(cmd *cobra.Command) action {
				l := addLevelFlags(cmd)
				return func(s *session, args []string) error {
					level, err := l.level(s)
					if err != nil {
						return err
					}
					return frame.Done(s.Session, "the policy for %s is removed", args[0])(level.remove(args[0]))
				}
			},
		}),
	)
}

// explainPolicy prints each key with the level that decided it; as JSON the whole policy.
func (a *app) explainPolicy(s *session) func(apiclient.Answer, error) error {
	return func(answer apiclient.Answer, err error) error {
		raw, err := apiclient.Read(answer, err)
		if err != nil {
			return err
		}
		v, err := frame.Fetch[apiclient.PolicyView](answer, nil)
		if err != nil {
			return err
		}
		one := []table.Column[apiclient.PolicyView]{
			{Title: "OPERATION", Text: func(v apiclient.PolicyView) string { return v.OperationType }},
			{Title: "ENABLED", Text: func(v apiclient.PolicyView) string { return yesNo(v.Effective.Enabled) }},
			{Title: "SEEN FROM", Text: func(v apiclient.PolicyView) string { return string(v.Scope) }},
			{Title: "POLICY DOCUMENT", Text: func(v apiclient.PolicyView) string {
				if d := v.Effective.Document; d != nil {
					return d.Document + " decides about each request, too (" + d.Title +
						"); see what it says with: operation run --dry-run"
				}
				return "none"
			}, Detail: true},
		}
		if err := frame.PrintOne(a.App, one, raw); err != nil {
			return err
		}
		return frame.PrintPart(s.Session, a.decisionColumns(), v.Effective.Why)
	}
}

// policyFlags are the flags that change a policy.
type policyFlags struct {
	enabled, signature, deny   bool
	concurrency, timeout, size int64
	sources, kinds, clear      []string
	reason                     string
}

func (a *app) policySetCommand() *cobra.Command {
	return a.verb(verb{
		use: "set TYPE", short: "Change what a level settles", args: frame.Exactly("TYPE"),
		operations: append(levelOperations("get", "operation-policy"), levelOperations("put", "operation-policy")...),
		long: "What is not given stays as it is. Administrators of a tenant do so for the tenant and its projects, those of\n" +
			"the platform with --global.",
		example: "  gpuaas operation policy set node.package.install --tenant acme --max-concurrency 5\n" +
			"  gpuaas operation policy set '*' --project acme/training --enabled=false --reason 'ask the platform team'\n" +
			"  gpuaas operation policy set node.file.render --global --hard-deny",
		flags: func(cmd *cobra.Command) action {
			l := addLevelFlags(cmd)
			v := &policyFlags{}
			f := cmd.Flags()
			f.BoolVar(&v.enabled, "enabled", false, "whether it can be run")
			f.Int64Var(&v.concurrency, "max-concurrency", 0, "how many targets are worked on at a time")
			f.Int64Var(&v.timeout, "timeout-seconds", 0, "how long it may take on one target")
			f.StringSliceVar(&v.sources, "artifact-sources", nil, "prefixes that artifacts may come from; empty: none")
			f.StringSliceVar(&v.kinds, "target-kinds", nil, "of node, allocation, group")
			f.BoolVar(&v.signature, "require-signature", false, "whether signatures of artifacts must be verified")
			f.Int64Var(&v.size, "max-artifact-bytes", 0, "how large an artifact may be")
			f.BoolVar(&v.deny, "hard-deny", false, "with --global: deny it for good")
			f.StringSliceVar(&v.clear, "clear", nil, "unset this here: "+strings.Join(policyKeys, ", "))
			f.StringVar(&v.reason, "reason", "", "why; whoever is refused reads it")
			frame.Complete(cmd, "clear", policyKeys...)
			return func(s *session, args []string) error {
				if err := s.Anything(append(slices.Clone(policyKeys), "hard-deny", "clear", "reason")...); err != nil {
					return err
				}
				level, err := l.level(s)
				if err != nil {
					return err
				}
				if v.deny && !l.global {
					return failure.Misuse(s.Cmd, "--hard-deny is for --global; elsewhere use --enabled=false")
				}
				now, err := frame.Fetch[apiclient.PolicyView](level.get(args[0]))
				if err != nil {
					return err
				}
				body, err := v.applied(s, now)
				if err != nil {
					return err
				}
				return a.explainPolicy(s)(level.put(args[0], now.Version, body))
			}
		},
	})
}

// applied is the policy of before with what was given.
func (v *policyFlags) applied(s *session, now apiclient.PolicyView) (apiclient.PolicyGlobalBody, error) {
	out := apiclient.PolicyGlobalBody{
		Enabled: now.Enabled, MaxConcurrency: now.MaxConcurrency, TimeoutSeconds: now.TimeoutSeconds,
		AllowedArtifactSources: now.AllowedArtifactSources, AllowedTargetKinds: now.AllowedTargetKinds,
		RequireSignatureVerification: now.RequireSignatureVerification, MaxArtifactSizeBytes: now.MaxArtifactSizeBytes,
		HardDeny: now.HardDeny, Reason: now.Reason,
	}
	for _, name := range v.clear {
		if s.Cmd.Flags().Changed(name) {
			return out, failure.Misuse(s.Cmd, "give either --%s or --clear %s", name, name)
		}
	}
	settle(s, v.clear, "enabled", &out.Enabled, &v.enabled)
	settle(s, v.clear, "max-concurrency", &out.MaxConcurrency, &v.concurrency)
	settle(s, v.clear, "timeout-seconds", &out.TimeoutSeconds, &v.timeout)
	settle(s, v.clear, "artifact-sources", &out.AllowedArtifactSources, &v.sources)
	settle(s, v.clear, "target-kinds", &out.AllowedTargetKinds, &v.kinds)
	settle(s, v.clear, "require-signature", &out.RequireSignatureVerification, &v.signature)
	settle(s, v.clear, "max-artifact-bytes", &out.MaxArtifactSizeBytes, &v.size)
	settle(s, v.clear, "hard-deny", &out.HardDeny, &v.deny)
	settle(s, v.clear, "reason", &out.Reason, &v.reason)
	return out, nil
}

// settle takes the value of a flag that was given, and drops one that is cleared.
func settle[T any](s *session, cleared []string, flag string, to **T, given *T) {
	if slices.Contains(cleared, flag) {
		*to = nil
	} else if v := frame.Given(s.Session, flag, given); v != nil {
		*to = v
	}
}
