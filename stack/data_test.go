package stack

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/openbao/openbao/api/v2"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	"gpuaas/deploy/openbao"
)

// put leaves something in every engine, the way the product does.
func put(ctx context.Context, p Endpoints) error {
	return errors.Join(putPostgres(ctx, p), putTemporal(ctx, p), putNATS(ctx, p), putBao(ctx, p))
}

// find looks for what put left.
func find(ctx context.Context, p Endpoints) error {
	return errors.Join(findPostgresRow(ctx, p), findTemporal(ctx, p), findNATS(ctx, p), findBao(ctx, p))
}

func putPostgres(ctx context.Context, p Endpoints) error {
	if err := query(ctx, p.PostgresMigrateURL, "CREATE TABLE kept (v text); GRANT ALL ON kept TO gpuaas_app"); err != nil {
		return err
	}
	return query(ctx, p.PostgresURL, "INSERT INTO kept VALUES ('precious')")
}

func findPostgresRow(ctx context.Context, p Endpoints) error {
	return query(ctx, p.PostgresURL, "SELECT 1 / count(*) FROM kept WHERE v = 'precious'")
}

func query(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("postgres: %s: %w", sql, err)
	}
	return nil
}

const keptWorkflow = "kept"

func putTemporal(ctx context.Context, p Endpoints) error {
	c, err := dialTemporal(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	var attributes []sdktemporal.SearchAttributeUpdate
	for _, name := range searchAttributes {
		attributes = append(attributes, sdktemporal.NewSearchAttributeKeyKeyword(name).ValueSet("precious"))
	}
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: keptWorkflow, TaskQueue: "nobody", TypedSearchAttributes: sdktemporal.NewSearchAttributes(attributes...),
	}, "Kept")
	if err != nil {
		return fmt.Errorf("temporal: start workflow: %w", err)
	}
	return nil
}

func findTemporal(ctx context.Context, p Endpoints) error {
	c, err := dialTemporal(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	found, err := c.DescribeWorkflow(ctx, keptWorkflow, "")
	if err != nil {
		return fmt.Errorf("temporal: describe workflow: %w", err)
	}
	if n := found.TypedSearchAttributes.Size(); n != len(searchAttributes) {
		return fmt.Errorf("temporal: workflow has %d search attributes, want %d", n, len(searchAttributes))
	}
	return nil
}

func dialTemporal(ctx context.Context, p Endpoints) (client.Client, error) {
	trust, err := ClientTLS(p.TemporalCAFile, p.TemporalCertFile, p.TemporalKeyFile)
	if err != nil {
		return nil, err
	}
	c, err := client.DialContext(ctx, client.Options{
		HostPort: p.TemporalAddress, Namespace: p.TemporalNamespace, Logger: silent{},
		ConnectionOptions: client.ConnectionOptions{TLS: trust},
	})
	if err != nil {
		return nil, fmt.Errorf("temporal: %w", err)
	}
	return c, nil
}

func putNATS(ctx context.Context, p Endpoints) error {
	return withStreams(p, func(js jetstream.JetStream) error {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}); err != nil {
			return err
		}
		_, err := js.Publish(ctx, "kept", []byte("precious"))
		return err
	})
}

func findNATS(ctx context.Context, p Endpoints) error {
	return withStreams(p, func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, "KEPT")
		if err != nil {
			return err
		}
		message, err := stream.GetMsg(ctx, 1)
		if err != nil {
			return err
		}
		if string(message.Data) != "precious" {
			return fmt.Errorf("message is %q", message.Data)
		}
		return nil
	})
}

func withStreams(p Endpoints, do func(jetstream.JetStream) error) error {
	token, err := os.ReadFile(p.NATSTokenFile)
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	c, err := natsgo.Connect(p.NATSURL, natsgo.Token(string(token)))
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err == nil {
		err = do(js)
	}
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

func putBao(ctx context.Context, p Endpoints) error {
	c, err := logInToBao(ctx, p)
	if err != nil {
		return err
	}
	_, err = c.KVv2(openbao.KVMount).Put(ctx, "kept", map[string]any{"v": "precious"})
	if err != nil {
		return fmt.Errorf("bao: %w", err)
	}
	return nil
}

func findBao(ctx context.Context, p Endpoints) error {
	c, err := logInToBao(ctx, p)
	if err != nil {
		return err
	}
	secret, err := c.KVv2(openbao.KVMount).Get(ctx, "kept")
	if err != nil {
		return fmt.Errorf("bao: %w", err)
	}
	if secret.Data["v"] != "precious" {
		return fmt.Errorf("bao: secret is %v", secret.Data)
	}
	return nil
}

// logInToBao does what the product does with the two files.
func logInToBao(ctx context.Context, p Endpoints) (*api.Client, error) {
	config := api.NewConfig()
	config.DisableEnvironment, config.Address, config.MaxRetries = true, p.SecretsAddress, 0
	c, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("bao: %w", err)
	}
	roleID, err1 := os.ReadFile(p.SecretsRoleIDFile)
	secretID, err2 := os.ReadFile(p.SecretsSecretIDFile)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("bao: %w", err)
	}
	login, err := c.Logical().WriteWithContext(ctx, "auth/approle/login",
		map[string]any{"role_id": string(roleID), "secret_id": string(secretID)})
	if err != nil {
		return nil, fmt.Errorf("bao: log in: %w", err)
	}
	c.SetToken(login.Auth.ClientToken)
	return c, nil
}
