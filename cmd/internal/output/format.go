package output

import (
	"fmt"
	"time"
)

// ShortTime formats a time. It leaves out the date if that is today.
func ShortTime(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}

// Ago formats a duration as people read it.
func Ago(d time.Duration) string {
	switch {
	case d < 0:
		return "in the future"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Away formats how far away a time is.
func Away(d time.Duration) string {
	if d < 0 {
		return Ago(-d) + " ago"
	}
	return "in " + Ago(d)
}

// Done says what was done, or would be done in a dry run.
func Done(dryRun bool, done string) string {
	if dryRun {
		return "would be " + done
	}
	return done
}

// Bytes formats a number of bytes for people.
func Bytes(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
