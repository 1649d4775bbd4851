package cli

import (
	"cmp"
	"slices"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// manyJobs is how the same is done about many jobs of a kind with one request.
type manyJobs struct {
	operation, get string // of the API: the request, and the one that reads a job
	kind           func() *jobKind
	call           func(s *session, body apiclient.JobManyBody) (apiclient.Answer, error)
}

// manyFlags say which parked jobs are meant when none is named.
type manyFlags struct {
	batch, stage, class, code string
	yes                       *bool
}

func addManyFlags(cmd *cobra.Command) *manyFlags {
	v, f := &manyFlags{}, cmd.Flags()
	f.StringVar(&v.batch, "batch", "", "those of this batch, by id, that are parked")
	f.StringVar(&v.stage, "stage", "", "of the batch, only those parked at this stage")
	f.StringVar(&v.class, "class", "", "of the batch, only those parked by a failure of this class")
	f.StringVar(&v.code, "code", "", "of the batch, only those parked with this error code")
	v.yes = frame.AddYesFlag(cmd)
	return v
}

func (v *manyFlags) misused(s *session, argument string, args []string) error {
	switch {
	case len(args) > 0 && v.batch != "":
		return failure.Misuse(s.Cmd, "name %s or --batch, not both", argument)
	case v.batch == "" && v.stage+v.class+v.code != "":
		return failure.Misuse(s.Cmd, "--stage, --class and --code narrow a batch: --batch is required")
	case len(args) == 0 && v.batch == "":
		return failure.Misuse(s.Cmd, "missing %s, or --batch", argument)
	}
	return nil
}

// meant are the jobs that a command is about, as they are now.
func (m manyJobs) meant(s *session, resolve func(*session, string) (types.UUID, error), args []string, v *manyFlags) (
	[]jobView, error,
) {
	var out []jobView
	for _, name := range args {
		id, err := resolve(s, name)
		if err != nil {
			return nil, err
		}
		job, err := frame.Fetch[jobView](m.kind().get(s, id))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(j jobView) bool { return j.id() == job.id() }) {
			out = append(out, job)
		}
	}
	if len(args) > 0 {
		return out, nil
	}
	batch, err := s.IDOf("a batch", v.batch)
	if err != nil {
		return nil, err
	}
	raws, _, err := listing.Collect(func(p listing.Page) (apiclient.Answer, error) {
		return m.kind().list(s, jobQuery{Page: p, batch: &batch, status: &[]string{"failed"}})
	}, 0)
	if err != nil {
		return nil, err
	}
	parked, err := output.DecodeAll[jobView](raws)
	for _, o := range parked {
		if j := o.Value; v.fits(j) {
			out = append(out, j)
		}
	}
	if err == nil && len(out) == 0 {
		err = failure.New(failure.Conflict, "none_parked_so",
			"see how they stand: gpuaas "+m.kind().noun+" list --batch "+v.batch,
			"no %s of the batch is parked so", m.kind().noun)
	}
	return out, err
}

func (v *manyFlags) fits(j jobView) bool {
	return j.Failure != nil && (v.stage == "" || v.stage == j.CurrentStage) &&
		(v.class == "" || v.class == j.Failure.FailureClass) && (v.code == "" || v.code == j.Failure.ErrorCode)
}

// actOnMany does the same about all jobs that are meant, if somebody who is there to be asked
// means it too.
func actOnMany[T any](s *session, n jobNoun[T], r recovery, args []string, v *manyFlags, reason string) error {
	jobs, err := n.many.meant(s, n.resolve, args, v)
	if err != nil {
		return err
	}
	names, named := make([]string, len(jobs)), make([]apiclient.JobNamedJob, len(jobs))
	for i, j := range jobs {
		id, err := s.IDOf("a job", j.id())
		if err != nil {
			return err
		}
		names[i], named[i] = j.Hostname, apiclient.JobNamedJob{JobId: id, Epoch: &j.Epoch}
	}
	question := "This does %s for %s: %s\nFor each of them: " + r.short + prefixed(". ", r.long)
	ask := s.Ask
	if r.destroys() {
		ask = s.Confirm
	}
	if err := ask(*v.yes, question, r.word, plural(len(jobs), n.noun), frame.SomeOf(names)); err != nil {
		return err
	}
	raw, err := apiclient.Read(n.many.call(s, apiclient.JobManyBody{Action: r.action, Reason: reason, Jobs: &named}))
	if err != nil {
		return err
	}
	return s.showMany(n.noun, raw)
}

// showMany prints what became of each job. That some were refused is a failure.
func (s *session) showMany(noun string, raw []byte) error {
	acted, err := output.Decode[apiclient.JobManyView](raw)
	if err != nil {
		return err
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	rows := make([]output.Object[apiclient.JobActedView], len(acted.Value.Jobs))
	for i, j := range acted.Value.Jobs {
		rows[i].Value = j
	}
	if format == output.Table {
		err = table.Print(s.Program.Out, actedColumns(), rows, !s.Flags.NoHeaders, s.Wide())
	} else {
		err = output.Print(s.Program.Out, format, raw)
	}
	if err != nil || acted.Value.Refused == 0 {
		return err
	}
	return refusedJobs(noun, acted.Value)
}

// refusedJobs says for which jobs it was refused, and what to do about each.
func refusedJobs(noun string, acted apiclient.JobManyView) error {
	f := failure.New(failure.Conflict, "jobs_refused", "", "it was refused for %d of %s", acted.Refused,
		plural(len(acted.Jobs), noun))
	for _, j := range acted.Jobs {
		if j.Refusal == nil {
			continue
		}
		name := cmp.Or(text(j.Hostname), j.JobId.String())
		f.Fields = append(f.Fields, apiclient.FieldError{
			Field: name, Message: actionWord(j.Refusal.Message + prefixed("; ", text(j.Refusal.Remedy))),
		})
		f.Remedy = cmp.Or(f.Remedy, "see more: gpuaas "+noun+" explain "+name)
	}
	return f
}

func actedColumns() []table.Column[apiclient.JobActedView] {
	type acted = apiclient.JobActedView
	refusal := func(v acted) apiclient.JobRefusalView {
		if v.Refusal == nil {
			return apiclient.JobRefusalView{}
		}
		return *v.Refusal
	}
	return []table.Column[acted]{
		{Title: "HOSTNAME", Text: func(v acted) string { return text(v.Hostname) }},
		{Title: "OUTCOME", Text: func(v acted) string { return string(v.Outcome) }},
		{Title: "STATUS", Text: func(v acted) string { return text(v.Status) }},
		{Title: "STAGE", Text: func(v acted) string { return text(v.CurrentStage) }},
		{Title: "CODE", Wide: true, Text: func(v acted) string { return refusal(v).Code }},
		{Title: "BECAUSE", Long: true, Text: func(v acted) string { return actionWord(refusal(v).Message) }},
		{Title: "REMEDY", Wide: true, Text: func(v acted) string { return actionWord(text(refusal(v).Remedy)) }},
		{Title: "ID", Wide: true, Text: func(v acted) string { return v.JobId.String() }},
	}
}
