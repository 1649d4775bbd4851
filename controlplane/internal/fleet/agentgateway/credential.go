package agentgateway

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// Minter makes credentials of one type.
type Minter interface {
	Mint(ctx context.Context, m Mint) (Minted, error)
}

// Backend makes credentials of one type for tasks of certain types.
type Backend struct {
	Minter Minter
	// TaskTypes are the types whose tasks may ask.
	TaskTypes []string
	// LongLived credentials have no time of expiry: the machine keeps one after the
	// task, until its back-end revokes it.
	LongLived bool
}

// Mint is a request for a credential by a task that is being carried out now.
type Mint struct {
	Task        agenttask.Task
	Type        string
	OperationID string
	StepID      string
	Intent      map[string]string // what it is for
}

// Minted is a credential. Its values are shown to the agent and to nobody else.
type Minted struct {
	Values    map[string]redact.Secret
	ExpiresAt time.Time // zero: never by itself, which only a long-lived one may be
}

// credentialTypes are the types there are, with a back-end or without.
var credentialTypes = []string{
	agentwire.CredentialOCIPull, agentwire.CredentialS3Read, agentwire.CredentialGCSRead, agentwire.CredentialHFToken,
	agentwire.CredentialClusterJoin, agentwire.CredentialSourceRead, agentwire.CredentialMAASMachineToken,
}

// maxCredentialLife is the longest life of a short-lived credential.
const maxCredentialLife = time.Hour

var (
	repositoryForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/:-]{0,253}[a-z0-9])?$`)
	digestForm     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

const maxIntent = 16

// checkMint checks what does not depend on the caller of a request.
func checkMint(in agentwire.MintRequest) error {
	var fields []fault.Field
	refuse := func(field, message string) {
		fields = append(fields, fault.Field{Path: "body." + field, Message: message})
	}
	if in.Attempt < 1 {
		refuse("attempt", "must be that of the task, from 1")
	}
	if !plain(in.StepID, 100) {
		refuse("step_id", "must name the step that needs the credential")
	}
	if in.OperationID != "" && !plain(in.OperationID, 100) {
		refuse("operation_id", "must be visible ASCII, 100 characters at most")
	}
	if !slices.Contains(credentialTypes, in.CredentialType) {
		refuse("credential_type", "is not one there is")
	}
	if len(in.Intent) > maxIntent {
		refuse("intent", "has too many entries")
	}
	for k, v := range in.Intent {
		if !plain(k, 64) || len(v) > 1024 {
			refuse("intent", "has an entry that is too long or not named in visible ASCII")
			break
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fields...)
}

// backend finds who makes a credential for a task.
func (g *Gateway) backend(credentialType string, task agenttask.Task) (Backend, error) {
	b, ok := g.backends[credentialType]
	if !ok || b.Minter == nil {
		return b, fault.New(fault.Unavailable, "credential_backend_missing", "nothing here makes credentials of type %s",
			credentialType).
			WithRemedy("set up the back-end of this credential type in the control plane; the task can be repeated afterwards")
	}
	if !slices.Contains(b.TaskTypes, task.Type) {
		return b, fault.New(fault.Forbidden, "credential_not_for_task",
			"a task of type %s has no use for a credential of type %s", task.Type, credentialType)
	}
	return b, nil
}

// boundToStep refuses a credential that no step of an operation asks for: the run, the
// step, the type and what it is for must be those that the task was signed with. A value
// that the step takes from an earlier one is known to the node alone. What reads an
// artifact is given to steps that fetch this artifact, and to no other.
func boundToStep(task agenttask.Task, in agentwire.MintRequest) error {
	if task.Type != agentwire.TypeOperationRun {
		return nil
	}
	refused := fault.New(fault.Forbidden, "credential_not_for_step",
		"step %q of task %s does not ask for this credential of type %s", in.StepID, task.ID, in.CredentialType).
		WithRemedy("nothing can be done about it on the node: the definition of the operation says which step asks for what")
	var p agentwire.OperationRunParams
	if err := json.Unmarshal(task.Params, &p); err != nil {
		return fault.Wrap(err, fault.Internal, "node_task_params_invalid", "the parameters of task %s cannot be read",
			task.ID)
	}
	// The path for registries names no run: the task does.
	if p.Plan || in.OperationID != "" && in.OperationID != p.OperationID || p.Begin < 0 || p.Begin > len(p.Steps) {
		return refused
	}
	for _, s := range p.Steps[p.Begin:] {
		if s.ID != in.StepID {
			continue
		}
		switch in.CredentialType {
		case agentwire.CredentialOCIPull, agentwire.CredentialSourceRead:
			if fetches(s, in) {
				return nil
			}
		default:
			if asksFor(s, in) {
				return nil
			}
		}
	}
	return refused
}

// asksFor says whether a step of a definition asks for a credential.
func asksFor(s agentwire.OperationStep, in agentwire.MintRequest) bool {
	var with agentwire.CredentialMintWith
	if s.Kind != agentwire.StepCredentialMint || json.Unmarshal(s.With, &with) != nil ||
		with.CredentialType != in.CredentialType || len(with.Intent) != len(in.Intent) {
		return false
	}
	for name, value := range with.Intent {
		if given, there := in.Intent[name]; !there || !agentwire.Means(value, given) {
			return false
		}
	}
	return true
}

// fetches says whether a step fetches exactly what a credential is to read.
func fetches(s agentwire.OperationStep, in agentwire.MintRequest) bool {
	digest := in.Intent["digest"]
	var source string
	switch in.CredentialType {
	case agentwire.CredentialOCIPull:
		source = "https://" + in.Intent["repository"] + "@" + digest
	case agentwire.CredentialSourceRead:
		source = in.Intent["source"]
	}
	kind, _ := agentwire.LookupStep(s.Kind)
	all, err := kind.Fetched(s.With)
	return err == nil && len(in.Intent) == 2 && slices.ContainsFunc(all, func(f agentwire.Fetch) bool {
		return f.Source == source && f.Digest == digest
	})
}

// honest refuses a credential that is not what its back-end is said to make.
func (b Backend) honest(credentialType string, expires, now time.Time) error {
	switch short := expires.After(now) && !expires.After(now.Add(maxCredentialLife)); {
	case b.LongLived && !expires.IsZero():
		return fault.New(fault.Internal, "credential_not_long_lived",
			"the back-end of %s says that a credential expires at %s, which lives on", credentialType, utc(expires))
	case !b.LongLived && !short:
		return fault.New(fault.Internal, "credential_not_short_lived",
			"the back-end of %s made a credential that expires at %s", credentialType, utc(expires))
	}
	return nil
}

// mint makes a credential for a task of the node. It records that before it
// returns the credential, and it records attempts that fail.
func (g *Gateway) mint(ctx context.Context, c caller, task agenttask.Task,
	in agentwire.MintRequest,
) (agentwire.Credential, error) {
	backend, err := g.backend(in.CredentialType, task)
	if err != nil {
		return agentwire.Credential{}, err
	}
	if err := boundToStep(task, in); err != nil {
		return agentwire.Credential{}, err
	}
	made, err := backend.Minter.Mint(ctx, Mint{
		Task: task, Type: in.CredentialType, OperationID: in.OperationID,
		StepID: in.StepID, Intent: in.Intent,
	})
	if err != nil {
		return agentwire.Credential{}, err
	}
	if err := backend.honest(in.CredentialType, made.ExpiresAt, g.clock()); err != nil {
		return agentwire.Credential{}, err
	}
	if err := g.recordMint(ctx, c, task.ID, in, nil); err != nil {
		return agentwire.Credential{}, err
	}
	out := agentwire.Credential{CredentialType: in.CredentialType, Values: map[string]string{}, ExpiresAt: made.ExpiresAt}
	for k, v := range made.Values {
		out.Values[k] = v.Reveal()
	}
	return out, nil
}
