package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "init",
		Short:   "Create the directory or the tables of a store",
		GroupID: cmdline.GroupStore,
		Long: `Create what a store needs, and test the store. init creates a directory, a DynamoDB table (billed
per request), the tables in a database of SQLite, PostgreSQL or MySQL, a bucket of NATS, or a
container of Azure. init creates no bucket of S3 or Google Cloud Storage: it only reads the first,
and tests the second.

If the URL of a bucket names a table of reservations (reserve=dynamodb://TABLE,
conditional_put=dynamo:TABLE), init creates that table. Its keys are path and etag. DynamoDB
removes each row after the time in its attribute ttl.

init changes an existing directory or table in one case only: if DynamoDB does not remove old
rows of a table of reservations, init turns this removal on.`,
		Example: `  holdfast --store 'dynamodb://holdfast?region=eu-central-1' init
  holdfast --store 's3://bucket?reserve=dynamodb://locks' init`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := a.Init(cmd.Context())
			if err != nil {
				return err
			}
			return a.PrintOrNote(result, "%s can be used", result["store"])
		},
	}
}
