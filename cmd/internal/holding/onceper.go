package holding

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

// ranAlready is the result of a run that is not due: none, or an error if a clock is wrong.
func (a *access) ranAlready(ran *lease.AlreadyRanError, h *openedStore) error {
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
