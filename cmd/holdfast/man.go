package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the man pages; packages are made with it.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the man pages to a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			// Reproducible: the date is that of the release.
			date := time.Unix(0, 0).UTC()
			if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
				seconds, err := strconv.ParseInt(epoch, 10, 64)
				if err != nil {
					return usagef("SOURCE_DATE_EPOCH is no Unix time: %w", err)
				}
				date = time.Unix(seconds, 0).UTC()
			}
			a.root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "HOLDFAST", Section: "1", Source: "holdfast " + version, Manual: "Holdfast", Date: &date}
			if err := doc.GenManTree(a.root, header, args[0]); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			return nil
		},
	}
}
