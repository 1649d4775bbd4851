package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

// Limits of webhooks.
const (
	MaxHooks   = 20 // of a project
	maxKinds   = 50
	maxWaiting = 10_000 // deliveries of a webhook
)

// fellBehind is why a webhook is disabled for which too much waits.
var fellBehind = fmt.Sprintf("%d deliveries waited for it: its receiver does not keep up", maxWaiting)

// Status says whether a webhook is told events.
type Status string

// The states of webhooks.
const (
	Enabled  Status = "enabled"
	Disabled Status = "disabled"
)

// Webhook is an address that a project is told events at.
type Webhook struct {
	ID              id.Webhook
	Org             id.Org
	Project         id.Project
	Name, URL       string
	Kinds           []string // types of events, or their beginnings and a star; empty: all
	DisabledAt      *time.Time
	DisabledReason  string
	FailingSince    *time.Time
	LastDeliveredAt *time.Time
	SecretRotatedAt time.Time
	Version         int64
	CreatedAt       time.Time
	CreatedBy       string
}

func (w Webhook) status() Status {
	if w.DisabledAt != nil {
		return Disabled
	}
	return Enabled
}

// Progress is how far a delivery has come.
type Progress string

// How far deliveries come.
const (
	Waiting   Progress = "waiting"
	Delivered Progress = "delivered"
	Failed    Progress = "failed"
)

// Delivery is one event that a webhook is told.
type Delivery struct {
	ID          id.WebhookDelivery
	Seq         int64
	Event       id.Event
	EventType   string
	Attempts    int32
	NextAt      *time.Time
	CreatedAt   time.Time
	AttemptedAt *time.Time
	FinishedAt  *time.Time
	Delivered   bool
	AnswerCode  int32
	AnswerMS    int32
	AnswerText  string
	Failure     string
}

func (d Delivery) progress() Progress {
	switch {
	case d.FinishedAt == nil:
		return Waiting
	case d.Delivered:
		return Delivered
	default:
		return Failed
	}
}

// Wish is what somebody wants of a webhook.
type Wish struct {
	Name, URL string
	Kinds     []string
}

var kindForm = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)*(\.?\*)?$|^\*$`)

// check refuses names and kinds that make no sense. A kind must fit an event that
// there is, so that a slip is seen at once. Kinds that the webhook had already stay, so
// that one with kinds of a previous release can still be disabled.
func (w Wish) check(had []string) error {
	var wrong []fault.Field
	refuse := func(path, why string) { wrong = append(wrong, fault.Field{Path: path, Message: why}) }
	if n := strings.TrimSpace(w.Name); n == "" || n != w.Name || len(n) > 100 {
		refuse("body.name", "must have 1 to 100 characters, without blanks around it")
	}
	if len(w.Kinds) > maxKinds {
		refuse("body.kinds", fmt.Sprintf("must not have more than %d entries", maxKinds))
	}
	for i, kind := range w.Kinds {
		if slices.Contains(had, kind) {
			continue
		}
		path := fmt.Sprintf("body.kinds[%d]", i)
		chosen := chosenBy(kind)
		if len(chosen) == 0 {
			refuse(path, "fits no type of events; use provisioning.active, or provisioning.*")
		}
		if i := slices.IndexFunc(chosen, untold); kind != "*" && i >= 0 {
			refuse(path, fmt.Sprintf("has %s, which no project is told; name types of events of projects", chosen[i].Type))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "webhook_invalid", "the webhook cannot be as asked for: %s %s", wrong[0].Path,
		wrong[0].Message).WithFields(wrong...).WithRemedy("correct what is named; contract/asyncapi.yaml lists the types of events")
}

// chosenBy are the types of events that a kind chooses.
func chosenBy(kind string) []eventwire.Definition {
	var out []eventwire.Definition
	for _, d := range eventwire.Events() {
		if kindForm.MatchString(kind) && fits(kind, string(d.Type)) {
			out = append(out, d)
		}
	}
	return out
}

// untold says whether no project is ever told events of a type.
func untold(d eventwire.Definition) bool { return d.Audience != eventwire.ToProject }

// fits says whether a kind chooses a type of events, as the trigger does.
func fits(kind, of string) bool {
	if begins, star := strings.CutSuffix(kind, "*"); star {
		return strings.HasPrefix(of, begins)
	}
	return kind == of
}

// waits are the times between attempts: about a day in all.
var waits = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	4 * time.Hour, 8 * time.Hour, 8 * time.Hour,
}

// backoff is how long to wait after an attempt, from 1, with up to a fifth more or
// less by chance (0 to 1); false: that was the last.
func backoff(attempt int32, chance float64) (time.Duration, bool) {
	if int(attempt) > len(waits) {
		return 0, false
	}
	return time.Duration(float64(waits[attempt-1]) * (0.8 + 0.4*chance)), true
}

// secretPrefix begins secrets, as Standard Webhooks has it.
const secretPrefix = "whsec_"

func newSecret() redact.Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails, and ends the program if it would
	return redact.New(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// sign returns the headers of a message as Standard Webhooks wants them: a signature
// by each secret, separated by blanks.
func sign(event string, at time.Time, body []byte, secrets []redact.Secret) (map[string]string, error) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), secretPrefix))
		if err != nil {
			return nil, fault.New(fault.Internal, "webhook_secret_broken", "the secret of the webhook cannot be read").
				WithRemedy("rotate it: gpuaas webhook rotate-secret")
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", event, seconds)
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return map[string]string{
		"content-type": "application/json", "user-agent": "gpuaas-webhook", "webhook-id": event, "webhook-timestamp": seconds,
		"webhook-signature": strings.Join(signatures, " "),
	}, nil
}
