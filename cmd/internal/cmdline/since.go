package cmdline

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// AddSince adds the flag --since of a command that prints a history; see [Since].
func AddSince(cmd *cobra.Command, since *string) {
	cmd.Flags().StringVar(since, "since", "", "print only entries from this time on: a duration such as 24h, or a time such as \"2026-11-24 02:00\" or 2026-11-24T02:00:00Z")
}

// Since reads the value of --since: a time, or how long ago it was.
func Since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, exit.Usagef("--since must be a duration such as 24h, or a time such as \"2026-11-24 02:00\", not %q", text)
}
