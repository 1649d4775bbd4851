package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
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

func (a *app) profileColumns() []table.Column[apiclient.SiteProfileView] {
	type profile = apiclient.SiteProfileView
	columns := []table.Column[profile]{
		{Title: "NAME", Text: func(v profile) string { return v.Name }},
		{Title: "STATUS", Text: func(v profile) string { return string(v.Status) }},
		{Title: "IMAGE", Text: func(v profile) string { return v.DistroSeries }},
		{Title: "ARCHITECTURE", Text: func(v profile) string { return v.Architecture }},
		{Title: "ID", Text: func(v profile) string { return v.ProfileId.String() }},
		{Title: "DESCRIPTION", Text: func(v profile) string { return v.Description }, Detail: true},
	}
	// The knobs are many: their names are those that "set" takes.
	for _, key := range profileKeys() {
		if key == "name" || key == "status" || key == "description" || key == "distro_series" || key == "architecture" {
			continue
		}
		columns = append(columns, table.Column[profile]{
			Title: key, Detail: true,
			Text: func(v profile) string { return knob(v, key) },
		})
	}
	return append(columns,
		table.Column[profile]{Title: "UPDATED", Text: func(v profile) string { return a.When(v.UpdatedAt) }, Detail: true},
		table.Column[profile]{
			Title: "VERSION", Text: func(v profile) string { return strconv.FormatInt(v.Version, 10) },
			Detail: true,
		})
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// profileKeys are the properties of a profile that can be set.
func profileKeys() []string {
	t := reflect.TypeFor[apiclient.SiteProfileChangeBody]()
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = jsonName(t.Field(i))
	}
	slices.Sort(keys)
	return keys
}

func knob(v apiclient.SiteProfileView, key string) string {
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		if jsonName(value.Type().Field(i)) == key {
			return fmt.Sprint(value.Field(i).Interface())
		}
	}
	return ""
}

func (a *app) siteProfileCommand() *cobra.Command {
	return a.noun(noun{use: "profile", short: "Policies that work on a site is done by"},
		a.verb(verb{
			use: "list SITE", short: "List the profiles of a site", aliases: []string{"ls"}, args: frame.Exactly("SITE"),
			operations: []string{"list-site-profiles"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				return siteVerb(func(s *session, site types.UUID) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SiteProfileView]{
						Columns: a.profileColumns(),
						Fetch:   s.profilesOf(site),
					})
				})
			},
		}),
		a.verb(verb{
			use: "get SITE PROFILE", short: "Show a profile with all its knobs", args: frame.Exactly("SITE", "PROFILE"),
			operations: []string{"get-site-profile"},
			run: func(s *session, args []string) error {
				site, profile, err := s.profile(args[0], args[1])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.profileColumns())(s.API.GetSiteProfileWithResponse(s.Ctx, site, profile.ProfileId))
			},
		}),
		a.verb(verb{
			use: "set SITE PROFILE KEY=VALUE...", short: "Change a profile, or create it when there is none of that name",
			long:    "Keys: " + strings.Join(profileKeys(), ", ") + ".",
			example: "  gpuaas site profile set dc1 default batch_max_parallel=4 hardware_sync_interval=30m",
			args:    cobra.MinimumNArgs(3), operations: []string{"update-site-profile", "create-site-profile"},
			run: func(s *session, args []string) error { return a.setProfile(s, args[0], args[1], args[2:]) },
		}),
		a.verb(verb{
			use: "delete SITE PROFILE", short: "Delete a profile that nobody uses", aliases: []string{"rm"},
			args: frame.Exactly("SITE", "PROFILE"), operations: []string{"delete-site-profile"},
			run: func(s *session, args []string) error {
				site, profile, err := s.profile(args[0], args[1])
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "profile %s is deleted", profile.Name)(
					s.API.DeleteSiteProfileWithResponse(s.Ctx, site, profile.ProfileId, &apiclient.DeleteSiteProfileParams{}))
			},
		}),
	)
}

func (s *session) profilesOf(site types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListSiteProfilesWithResponse(s.Ctx, site,
			&apiclient.ListSiteProfilesParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}

// findProfile looks for a profile by name or id.
func (s *session) findProfile(site types.UUID, name string) (apiclient.SiteProfileView, bool, error) {
	return listing.Find(s.profilesOf(site), func(v apiclient.SiteProfileView) bool {
		return v.Name == name ||
			v.ProfileId.String() == name
	})
}

func (s *session) profile(siteName, name string) (types.UUID, apiclient.SiteProfileView, error) {
	site, err := s.siteID(siteName)
	if err != nil {
		return site, apiclient.SiteProfileView{}, err
	}
	v, ok, err := s.findProfile(site, name)
	if err == nil && !ok {
		err = failure.Missing("list them: gpuaas site profile list "+siteName, "site %q has no profile %q",
			siteName, name)
	}
	return site, v, err
}

func (a *app) setProfile(s *session, siteName, name string, pairs []string) error {
	values, err := s.knobs(pairs)
	if err != nil {
		return err
	}
	site, err := s.siteID(siteName)
	if err != nil {
		return err
	}
	now, exists, err := s.findProfile(site, name)
	if err != nil {
		return err
	}
	if exists {
		body, err := bodyOf[apiclient.SiteProfileChangeBody](values)
		if err != nil {
			return err
		}
		return frame.Show(s.Session, a.profileColumns())(s.API.UpdateSiteProfileWithResponse(s.Ctx, site, now.ProfileId,
			&apiclient.UpdateSiteProfileParams{IfMatch: frame.ETag(now.Version)}, body))
	}
	if _, given := values["status"]; given {
		return failure.Misuse(s.Cmd, "there is no profile %q; a new one is always active", name)
	}
	values["name"] = name
	body, err := bodyOf[apiclient.SiteNewProfileBody](values)
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.profileColumns())(
		s.API.CreateSiteProfileWithResponse(s.Ctx, site, &apiclient.CreateSiteProfileParams{}, body))
}

// knobs reads KEY=VALUE pairs into the types that the contract says.
func (s *session) knobs(pairs []string) (map[string]any, error) {
	t := reflect.TypeFor[apiclient.SiteProfileChangeBody]()
	kinds := map[string]reflect.Kind{}
	for i := range t.NumField() {
		kinds[jsonName(t.Field(i))] = t.Field(i).Type.Elem().Kind()
	}
	values := map[string]any{}
	for _, pair := range pairs {
		key, text, found := strings.Cut(pair, "=")
		kind, known := kinds[key]
		if !found || !known {
			return nil, failure.Misuse(s.Cmd, "%q is not KEY=VALUE with one of the keys", pair)
		}
		var err error
		switch kind {
		case reflect.Bool:
			values[key], err = strconv.ParseBool(text)
		case reflect.Int32, reflect.Int64:
			values[key], err = strconv.ParseInt(text, 10, 32)
		default:
			values[key] = text
		}
		if err != nil {
			return nil, failure.Misuse(s.Cmd, "%s must be a %s", key,
				map[bool]string{true: "true or false", false: "number"}[kind == reflect.Bool])
		}
	}
	return values, nil
}

func bodyOf[T any](values map[string]any) (body T, err error) {
	b, err := json.Marshal(values)
	if err != nil {
		return body, fmt.Errorf("write the request: %w", err)
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return body, fmt.Errorf("write the request: %w", err)
	}
	return body, nil
}
