package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the time zones of --once-per, where the system has none

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
)

// checkPeriod checks --once-per and --retries.
func (f *runFlags) checkPeriod(names []string) error {
	if f.per == "" {
		return nil
	}
	period, err := lease.ParsePeriod(f.per)
	switch {
	case err != nil:
		return exit.Usagef("--once-per: %w%s", err, output.DidYouMean(nearestPeriod(f.per)))
	case len(names) > 1 || len(f.also) > 0:
		return exit.Usagef("--once-per needs exactly one lock in one store, because the record of that lock contains the last run")
	}
	f.period = period
	return nil
}

// nearestPeriod returns the period that the user most likely meant; nothing if there is none.
func nearestPeriod(text string) string {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return ""
	}
	unit := words[0]
	for _, known := range []string{"hour", "day", "week", "month", "year"} {
		if adverb := map[string]string{"day": "daily", "year": "annually"}[known]; unit == known || unit == known+"s" || unit == known+"ly" || unit == adverb || unit == "1"+known[:1] && known[0] != 'h' && known[0] != 'm' {
			if len(words) == 1 {
				return known
			}
			if zone := nearestZone(strings.Join(words[1:], "_")); zone != "" {
				return known + " " + zone
			}
			return ""
		}
	}
	// A number of days or weeks.
	if n, err := strconv.Atoi(unit[:len(unit)-1]); err == nil && n > 0 && n < 1000 && len(words) == 1 {
		switch unit[len(unit)-1] {
		case 'd':
			return fmt.Sprintf("%dh", n*24)
		case 'w':
			return fmt.Sprintf("%dh", n*7*24)
		}
	}
	return output.Nearest(unit, []string{"hour", "day", "week", "month", "year"})
}

// nearestZone returns the time zone whose name ends with a city, in small letters and with
// underscores for blanks.
func nearestZone(city string) string {
	city = city[strings.LastIndexByte(city, '/')+1:]
	letters := []byte(city)
	for i := range letters {
		if (i == 0 || letters[i-1] == '_') && 'a' <= letters[i] && letters[i] <= 'z' {
			letters[i] -= 'a' - 'A'
		}
	}
	for _, region := range []string{"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian"} {
		if zone := region + "/" + string(letters); len(letters) > 0 {
			if _, err := time.LoadLocation(zone); err == nil {
				return zone
			}
		}
	}
	if strings.EqualFold(city, "utc") {
		return "UTC"
	}
	return ""
}

// handle returns the handle of a lock; with --once-per that of its runs.
func (f *runFlags) handle(client *lease.Client, name string) (*lease.Handle, error) {
	if f.per == "" {
		return client.Handle(name, nil)
	}
	return client.Handle(name, &lease.LockOptions{Period: f.period, Retries: f.retries})
}

// ranAlready is the result of a run that is not due: none, or an error if a clock is wrong.
func (a *app) ranAlready(ran *lease.AlreadyRanError, h *openedStore) error {
	switch {
	case ran.Ahead > 0:
		return output.WithHints(output.OneLine(ran), ran, []string{fmt.Sprintf("to let the job run now: holdfast --store %s break %s --token %d", output.Quote(h.again), output.Quote(ran.Name), ran.Token)})
	case ran.Last.Outcome != lease.RunDone:
		a.Notef("%s", output.OneLine(ran)) // status 0 alone would look as if the job were done
	case a.Verbose:
		a.Warnf("%s", output.OneLine(ran))
	}
	return nil
}

// endOf is what the record says about a command that has ended.
func endOf(status int, err error) error {
	if err == nil && status != exit.OK {
		return fmt.Errorf("exit status %d", status)
	}
	return err
}

// runView is the last run of a job as ls and show print it with --json. Its fields are
// stable. All times are by the clock of the machine that ran it.
type runView struct {
	Period string     `json:"period"`
	Began  time.Time  `json:"began"`
	Ended  *time.Time `json:"ended"` // null if it is running or died
	Until  time.Time  `json:"period_end"`
	Result string     `json:"result"` // running, succeeded, failed or died
	Error  string     `json:"error,omitempty"`
	Holder string     `json:"holder"`
	Tries  int        `json:"attempts"`
	Again  bool       `json:"rerun_allowed,omitempty"` // a user has allowed another run in the period
}

func viewOfRun(r *lease.Run) *runView {
	if r == nil {
		return nil
	}
	v := &runView{
		Period: r.Period, Began: r.Began, Until: r.PeriodEnd, Result: resultOfRun(r.Outcome),
		Error: r.Error, Holder: r.Holder, Tries: r.Attempts, Again: r.RerunAllowed,
	}
	if !r.Ended.IsZero() {
		v.Ended = &r.Ended
	}
	return v
}

// resultOfRun is the outcome of a run for programs and people: records say "done" of one that
// has succeeded.
func resultOfRun(o lease.RunOutcome) string {
	if o == lease.RunDone {
		return "succeeded"
	}
	return string(o)
}

// short returns the result of the run, and how long ago that was.
func (v *runView) short() string {
	if v == nil {
		return "-"
	}
	at := v.Began
	if v.Ended != nil {
		at = *v.Ended
	}
	return v.Result + ", " + output.Away(time.Until(at))
}

// lines prints the run, one line for each fact.
func (v *runView) lines(line func(label, format string, args ...any)) {
	if v == nil {
		return
	}
	again := ""
	if v.Again {
		again = "; a user broke the lock: the job may run again"
	}
	line("last run", "%s (attempt %d)%s", v.Result, v.Tries, again)
	line("  began", "%s (%s)", v.Began.Local().Format(time.RFC3339), output.Away(time.Until(v.Began)))
	if v.Ended != nil {
		line("  ended", "%s (after %s)", v.Ended.Local().Format(time.RFC3339), output.Ago(max(0, v.Ended.Sub(v.Began))))
	}
	if v.Error != "" {
		line("  error", "%s", v.Error)
	}
	line("  by", "%s", v.Holder)
	line("  period", "%s, until %s", v.Period, v.Until.Local().Format(time.RFC3339))
}
