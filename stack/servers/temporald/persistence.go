package temporald

import (
	"fmt"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
)

func persistence(c Config) config.Persistence {
	main := store(c.Postgres, c.Postgres.Database)
	visibility := store(c.Postgres, c.Postgres.VisibilityDatabase)
	return config.Persistence{
		NumHistoryShards: c.HistoryShards,
		DefaultStore:     "main",
		VisibilityStore:  "visibility",
		DataStores: map[string]config.DataStore{
			"main":       {SQL: &main},
			"visibility": {SQL: &visibility},
		},
	}
}

// store opens at most MaxConnections connections for each service and keeps
// them while they are busy: closing surplus connections at once would cost a
// password exchange on almost every query under load. Their short life lets an
// idle server give them back.
func store(p Postgres, database string) config.SQL {
	return config.SQL{
		PluginName:        postgresql.PluginNamePGX,
		ConnectAddr:       p.Address,
		ConnectProtocol:   "tcp",
		ConnectAttributes: map[string]string{"sslmode": "disable", "require_auth": "scram-sha-256"},
		User:              p.User,
		Password:          p.Password,
		DatabaseName:      database,
		MaxConns:          p.MaxConnections,
		MaxIdleConns:      p.MaxConnections,
		MaxConnLifetime:   10 * time.Minute,
	}
}

// migrate brings both databases to the newest schema of this server.
func migrate(p Postgres, logger log.Logger) error {
	for database, name := range map[string]string{
		p.Database:           "postgresql/v12/temporal",
		p.VisibilityDatabase: "postgresql/v12/visibility",
	} {
		if err := migrateDatabase(store(p, database), name, logger); err != nil {
			return fmt.Errorf("migrate database %s: %w", database, err)
		}
	}
	return nil
}

// migrateDatabase runs the tasks of Temporal's schema tool directly, because
// its command line calls os.Exit on failure.
func migrateDatabase(c config.SQL, schemaName string, logger log.Logger) error {
	connection, err := sqltool.NewConnection(&c, logger)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.ConnectAddr, err)
	}
	defer connection.Close()
	if _, err := connection.ReadSchemaVersion(); err != nil { // no version table yet
		setup := schema.NewSetupSchemaTask(connection, &schema.SetupConfig{InitialVersion: "0.0"}, logger)
		if err := setup.Run(); err != nil {
			return fmt.Errorf("set up schema versions: %w", err)
		}
	}
	update := schema.NewUpdateSchemaTask(connection, &schema.UpdateConfig{
		DBName: c.DatabaseName, SchemaName: schemaName,
	}, logger)
	return update.Run()
}
