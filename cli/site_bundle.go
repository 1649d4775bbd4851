package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) bundleVersionColumns() []table.Column[apiclient.SiteBundleView] {
	type bundle = apiclient.SiteBundleView
	return []table.Column[bundle]{
		{Title: "BUNDLE", Text: func(v bundle) string { return v.Ref }},
		{Title: "USED BY", Long: true, Text: func(v bundle) string { return strings.Join(v.UsedBy, ", ") }},
		{Title: "BYTES", Text: func(v bundle) string { return strconv.FormatInt(v.Size, 10) }},
		{Title: "SHA256", Wide: true, Text: func(v bundle) string { return v.Sha256 }},
		ago(a, "ADDED", func(v bundle) time.Time { return v.CreatedAt }),
		{Title: "BY", Text: func(v bundle) string { return v.AddedBy }, Detail: true},
		{Title: "ID", Text: func(v bundle) string { return v.BundleId.String() }, Detail: true},
	}
}

func (a *app) siteBundleCommand() *cobra.Command {
	return a.noun(noun{
		use: "bundle", short: "Programs that machines of a site run at their first boot",
		long: "A bundle is a script or an executable of at most 1 MiB that machines run as root at their first boot, before\n" +
			"the agent is installed. It is named NAME@VERSION. A version is given once, and its content never changes.",
	},
		a.verb(verb{
			use: "upload SITE NAME@VERSION FILE", short: "Upload a version of a bundle",
			long: "Only administrators of the platform may. An upload that was interrupted goes on where it stopped when the\n" +
				"command is repeated. No profile uses the version until it is told to: gpuaas site bundle use.",
			example:    "  gpuaas site bundle upload dc1 base@2026.11 ./base.sh",
			args:       frame.Exactly("SITE", "NAME@VERSION", "FILE"),
			operations: []string{"begin-site-bundle-upload", "send-site-bundle-part", "complete-site-bundle-upload"},
			run: func(s *session, args []string) error {
				site, err := s.siteID(args[0])
				if err != nil {
					return err
				}
				return a.uploadBundle(s, site, args[1], args[2])
			},
		}),
		a.verb(verb{
			use: "list SITE", short: "List the bundles of a site", aliases: []string{"ls"}, args: frame.Exactly("SITE"),
			operations: []string{"list-site-bundles"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				return siteVerb(func(s *session, site types.UUID) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SiteBundleView]{
						Columns: a.bundleVersionColumns(), Fetch: s.bundlesOf(site),
					})
				})
			},
		}),
		a.bundleUseCommand(),
		a.verb(verb{
			use: "rollback SITE PROFILE", short: "Return a profile to the bundle that it used before",
			long: "A second rollback is refused: name the version with 'use'. Machines that were installed meanwhile stay as they are.",
			args: frame.Exactly("SITE", "PROFILE"), operations: []string{"rollback-site-bundle"},
			run: func(s *session, args []string) error {
				site, profile, err := s.profile(args[0], args[1])
				if err != nil {
					return err
				}
				return a.showUsed(s)(s.API.RollbackSiteBundleWithResponse(s.Ctx, site, profile.ProfileId,
					&apiclient.RollbackSiteBundleParams{}))
			},
		}),
		a.verb(verb{
			use: "delete SITE NAME@VERSION", short: "Delete a version that no profile uses", aliases: []string{"rm"},
			args: frame.Exactly("SITE", "NAME@VERSION"), operations: []string{"delete-site-bundle", "list-site-bundles"},
			run: func(s *session, args []string) error {
				site, err := s.siteID(args[0])
				if err != nil {
					return err
				}
				v, ok, err := listing.Find(s.bundlesOf(site), func(v apiclient.SiteBundleView) bool { return v.Ref == args[1] })
				if err == nil && !ok {
					err = failure.Missing("list them: gpuaas site bundle list "+args[0], "site %q has no bundle %q",
						args[0], args[1])
				}
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "bundle %s is deleted", v.Ref)(
					s.API.DeleteSiteBundleWithResponse(s.Ctx, site, v.BundleId, &apiclient.DeleteSiteBundleParams{}))
			},
		}),
	)
}

func (a *app) bundleUseCommand() *cobra.Command {
	return a.verb(verb{
		use: "use SITE PROFILE NAME@VERSION", short: "Let machines of a profile run a bundle at their first boot",
		long: "The profile is pinned to the digest of the bundle: machines run exactly that program, or none. Jobs that have\n" +
			"prepared their first boot already keep the one they have.",
		args: frame.Exactly("SITE", "PROFILE", "NAME@VERSION"), operations: []string{"use-site-bundle"},
		flags: func(cmd *cobra.Command) action {
			digest := cmd.Flags().String("sha256", "", "the digest that the bundle must have")
			return func(s *session, args []string) error {
				site, profile, err := s.profile(args[0], args[1])
				if err != nil {
					return err
				}
				return a.showUsed(s)(s.API.UseSiteBundleWithResponse(s.Ctx, site, profile.ProfileId,
					&apiclient.UseSiteBundleParams{},
					apiclient.SiteUseBundleBody{Ref: args[2], Sha256: frame.Given(s.Session, "sha256", digest)}))
			}
		},
	})
}

// showUsed shows which bundle a profile uses.
func (a *app) showUsed(s *session) func(apiclient.Answer, error) error {
	type profile = apiclient.SiteProfileView
	return frame.Show(s.Session, []table.Column[profile]{
		{Title: "PROFILE", Text: func(v profile) string { return v.Name }},
		{Title: "BUNDLE", Text: func(v profile) string { return v.SiteBootstrapBundleRef }},
		{Title: "SHA256", Text: func(v profile) string { return v.SiteBootstrapBundleSha256 }},
		{Title: "BEFORE", Text: func(v profile) string { return v.PreviousBundleRef }},
	})
}

func (s *session) bundlesOf(site types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListSiteBundlesWithResponse(s.Ctx, site,
			&apiclient.ListSiteBundlesParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}

// mostBundle keeps the command from reading a file that no bundle can be; the
// control plane has the limit.
const mostBundle = 16 << 20

func (a *app) uploadBundle(s *session, site types.UUID, ref, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > mostBundle {
		return failure.New(failure.Usage, "bundle_no_file", "give a script or an executable of at most 1 MiB",
			"%s is no file that can be a bundle", file)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	sum := sha256.Sum256(program)
	upload, err := frame.Fetch[apiclient.SiteBundleUploadView](s.API.BeginSiteBundleUploadWithResponse(s.Ctx, site,
		&apiclient.BeginSiteBundleUploadParams{},
		apiclient.SiteNewBundleBody{Ref: ref, Sha256: hex.EncodeToString(sum[:]), Size: int64(len(program))}))
	for err == nil && upload.Received < upload.Size {
		end := min(upload.Received+upload.MaxPart, int64(len(program)))
		upload, err = frame.Fetch[apiclient.SiteBundleUploadView](s.API.SendSiteBundlePartWithResponse(s.Ctx, site,
			upload.UploadId, &apiclient.SendSiteBundlePartParams{},
			apiclient.SiteBundlePartBody{Ref: ref, Offset: upload.Received, Data: program[upload.Received:end]}))
	}
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.bundleVersionColumns())(s.API.CompleteSiteBundleUploadWithResponse(s.Ctx, site,
		upload.UploadId, &apiclient.CompleteSiteBundleUploadParams{}, apiclient.SiteBundleCompleteBody{Ref: ref}))
}
