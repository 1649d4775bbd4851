package sshkey

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "SSH keys"
	pathOwn     = "/api/v1/me/ssh-keys"
	pathProject = "/api/v1/projects/{project_id}/ssh-keys"
)

// View is a key as the API shows it.
type View struct {
	SSHKeyID    id.SSHKey `json:"ssh_key_id" doc:"Id of the key."`
	Name        string    `json:"name" example:"laptop"`
	Algorithm   string    `json:"algorithm" example:"ssh-ed25519"`
	PublicKey   string    `json:"public_key" doc:"The key in the form of OpenSSH, without a comment."`
	Fingerprint string    `json:"fingerprint" doc:"As ssh-keygen -l shows it." example:"SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDYAfCjxX0Ps3mXVR0"`
	AddedBy     string    `json:"added_by" doc:"Id of who added it."`
	CreatedAt   time.Time `json:"created_at"`
}

func show(k Key) View {
	return View{
		SSHKeyID: k.ID, Name: k.Name, Algorithm: k.Algorithm, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint,
		AddedBy: k.AddedBy, CreatedAt: k.CreatedAt.UTC(),
	}
}

// NewBody is a key to add.
type NewBody struct {
	Name      string `json:"name,omitempty" maxLength:"200" doc:"What people call it; the comment of the key when left out." example:"laptop"`
	PublicKey string `json:"public_key" minLength:"1" maxLength:"16384" doc:"One line, as ssh-keygen writes it into the file that ends with .pub." example:"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl laptop"`
}

// ProjectPath names a project in the path. It is exported because the framework
// reads embedded parameters only from exported types.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// KeyPath names a key in the path.
type KeyPath struct {
	SSHKeyID id.SSHKey `path:"ssh_key_id" doc:"Id of the key."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerOwn(api)
	s.registerProject(api)
}

func (s *Service) registerOwn(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "add-my-ssh-key", Method: http.MethodPost, Path: pathOwn, Tag: tag, Summary: "Add an SSH key of your own",
		Description: "Only the public half is sent. Only people have keys of their own.",
		Access:      httpapi.Authenticated(), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Plain[View], error) {
		k, err := s.AddOwn(ctx, in.Body.Name, in.Body.PublicKey)
		return &httpapi.Plain[View]{Body: show(k)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-my-ssh-keys", Method: http.MethodGet, Path: pathOwn, Tag: tag, Summary: "List your SSH keys",
		Access: httpapi.Authenticated(),
	}, func(ctx context.Context, in *struct{ httpapi.Page }) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.SSHKey](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Own(ctx, page)
		return httpapi.ListOf(in.Page, rows, err, show, position)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-my-ssh-key", Method: http.MethodDelete, Path: pathOwn + "/{ssh_key_id}", Tag: tag,
		Summary: "Remove one of your SSH keys", Access: httpapi.Authenticated(),
	}, func(ctx context.Context, in *KeyPath) (*httpapi.Nothing, error) {
		return nil, s.RemoveOwn(ctx, in.SSHKeyID)
	})
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "add-project-ssh-key", Method: http.MethodPost, Path: pathProject, Tag: tag,
		Summary: "Add an SSH key that a project shares", Access: httpapi.Project(auth.SSHKeyManage),
		Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body NewBody
	},
	) (*httpapi.Plain[View], error) {
		k, err := s.Add(ctx, Owner{Project: in.ProjectID}, in.Body.Name, in.Body.PublicKey)
		return &httpapi.Plain[View]{Body: show(k)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-project-ssh-keys", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List the SSH keys that a project shares", Access: httpapi.Project(auth.SSHKeyRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.SSHKey](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Keys(ctx, Owner{Project: in.ProjectID}, page)
		return httpapi.ListOf(in.Page, rows, err, show, position)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-project-ssh-key", Method: http.MethodDelete, Path: pathProject + "/{ssh_key_id}", Tag: tag,
		Summary: "Remove an SSH key that a project shares", Access: httpapi.Project(auth.SSHKeyManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		KeyPath
	},
	) (*httpapi.Nothing, error) {
		return nil, s.Remove(ctx, Owner{Project: in.ProjectID}, in.SSHKeyID)
	})
}

func position(v View) any { return v.SSHKeyID }
