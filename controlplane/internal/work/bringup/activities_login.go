package bringup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/ssh"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// A machine is set up over SSH until it has an agent. Its first boot gives it a
// host key, so that it is known before it is first called, and an account that
// one key opens: both are made for this machine and this deployment, and of
// neither is a private half kept longer than needed. Once the agent is there the
// account is locked and the key destroyed.

// loginKeyField is the name of the key to a machine in the secrets engine.
const loginKeyField = "login_key"

// LoginPath is where the secrets engine keeps the key to the machine that a job of
// a kind deploys.
func LoginPath(kind, job string) string { return FirstBootPath(kind, job) + "/login" }

// deployUser makes the login of the machine. An earlier login stops working,
// because its key is overwritten.
func (b *Bringup) deployUser(ctx context.Context, w *Work) (l firstboot.Layer, wanted bool, err error) {
	host, err := ssh.NewKeyPair()
	if err != nil {
		return l, false, err
	}
	login, err := ssh.NewKeyPair()
	if err != nil {
		return l, false, err
	}
	l, err = firstboot.DeployUser(w.Site.Settings.DeployUser, login.Public,
		firstboot.HostKey{Private: host.Private, Public: host.Public})
	if err != nil {
		return l, false, err
	}
	if err := b.cfg.Secrets.Put(ctx, LoginPath(w.Kind, w.Job),
		map[string]redact.Secret{loginKeyField: login.Private}); err != nil {
		return l, false, fmt.Errorf("keep key to machine: %w", err)
	}
	w.Facts.HostKey, w.Facts.DeployUser = host.Public, w.Site.Settings.DeployUser
	return l, true, nil
}

// account returns the account through which the machine is set up. The site's
// account is for machines whose first boot was rendered before the name was
// recorded.
func (w *Work) account() string {
	if w.Facts.DeployUser != "" {
		return w.Facts.DeployUser
	}
	return w.Site.Settings.DeployUser
}

// ownLogin says whether the machine runs a first boot that gave it a login of its
// own.
func (w *Work) ownLogin() bool { return w.Facts.HostKey != "" && !w.Facts.Adopted }

// sharedLogin says whether the first boot of the machine is of the old form, in
// which all machines of a site had one password.
func (w *Work) sharedLogin() bool {
	return w.Facts.HostKey == "" && !w.Facts.Adopted && slices.ContainsFunc(w.Facts.FirstBootLayers,
		func(l firstboot.LayerRef) bool {
			return l.Name == firstboot.DeployUserLayer && l.Version == firstboot.SharedLoginVersion
		})
}

// login returns how to log in to the machine. The password of the site is for
// machines of the old form, and is sent to no other.
func (b *Bringup) login(ctx context.Context, w *Work) (ssh.Config, error) {
	cfg := ssh.Config{Dialer: b.cfg.Dialer, User: w.account()}
	switch {
	case w.ownLogin():
		values, err := b.cfg.Secrets.Get(ctx, LoginPath(w.Kind, w.Job))
		if fault.KindOf(err) == fault.NotFound || err == nil && values[loginKeyField].IsZero() {
			return cfg, noLogin(w, "the key to %s is not in the secrets engine: it is destroyed once the agent has enrolled",
				w.Hostname)
		}
		if err != nil {
			return cfg, fmt.Errorf("read key to machine: %w", err)
		}
		cfg.Key, cfg.HostKey = values[loginKeyField], w.Facts.HostKey
	case w.sharedLogin():
		password, err := b.cfg.Sites.DeployPassword(ctx, w.Site.ID)
		if err != nil {
			return cfg, err
		}
		cfg.Password, cfg.HostKey, cfg.FirstUse = password, w.Facts.SSHHostKey, true
	default:
		return cfg, noLogin(w, "%s was not deployed by this job, so there is no key to it", w.Hostname)
	}
	return cfg, nil
}

func noLogin(w *Work, format string, args ...any) *Failure {
	return codeNoLogin.Failed(format, args...).
		With("its agent can be asked instead, once it polls; look at it on the console of %s", w.Hostname)
}

// dropLogin destroys the key to the machine. From then on nobody can use the
// account on it.
func (b *Bringup) dropLogin(ctx context.Context, w *Work) error {
	if err := b.cfg.Secrets.Delete(ctx, LoginPath(w.Kind, w.Job)); err != nil && fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("destroy key to machine: %w", err)
	}
	return nil
}

// dropSecrets removes the secrets of a deployment that is over.
func (b *Bringup) dropSecrets(ctx context.Context, w *Work) error {
	if err := b.dropFirstBoot(ctx, w); err != nil {
		return err
	}
	return b.dropLogin(ctx, w)
}

// How long to wait for a task that was just created: a healthy agent answers
// quickly, and a few reads cost less than a signal to the workflow.
const (
	lockLingers = 2 * time.Second
	lockPause   = 20 * time.Millisecond
)

// closeLogin makes the agent lock the account through which the machine was set
// up, and destroys the key to it. await says what to wait for; note is for
// people.
func (b *Bringup) closeLogin(ctx context.Context, w *Work) (note string, await *Await, err error) {
	if w.Facts.LoginLocked != nil || b.cfg.Tasks == nil {
		return "", nil, nil
	}
	t, err := b.lockLogin(ctx, w)
	if err != nil {
		return "", nil, err
	}
	switch {
	case !t.Status.Ended():
		return "", &Await{Signal: agenttask.SignalName(t.ID), Most: agentwire.Lease}, nil
	case t.Error.Code == string(agentwire.RefusedUnknownType): // the agent is older than this task type
		note = "; its agent is too old to lock the deploy login, which is done when it has been updated"
	case t.Status != agenttask.Succeeded:
		return "", nil, codeLoginNotLocked.Failed("the agent of %s could not lock the account %s: %s",
			w.Hostname, w.account(), t.Error.Message).ForGood().
			About(map[string]any{"task_id": t.ID.String(), "task_status": string(t.Status), "task_error": t.Error.Code})
	default:
		at := b.now().UTC()
		w.Facts.LoginLocked = &at
		note = "; the account " + w.account() + " is locked"
	}
	if err := b.dropLogin(ctx, w); err != nil {
		return "", nil, err
	}
	return note, nil, w.Save(ctx)
}

// lockLogin creates the task, once for each epoch, and waits briefly for it.
func (b *Bringup) lockLogin(ctx context.Context, w *Work) (t agenttask.Task, err error) {
	if err := w.Fence(ctx); err != nil {
		return t, err
	}
	err = b.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t, err = b.cfg.Tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: w.Node, Type: agentwire.TypeLoginLock, Params: agentwire.LoginLockParams{Username: w.account()},
			IdempotencyKey: fmt.Sprintf("%s/%s/login-lock/%d", w.Kind, w.Job, w.Epoch), AwaitWorkflow: w.WorkflowID,
			Reason: "the agent has enrolled: nobody needs the deploy login any more",
		})
		return err
	})
	for began := time.Now(); err == nil && !t.Status.Ended() && time.Since(began) < lockLingers; {
		if err = leaveAlone(ctx, lockPause); err == nil {
			t, err = b.cfg.Tasks.Task(ctx, t.ID)
		}
	}
	return t, err
}
