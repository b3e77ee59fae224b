package holding

import "testing"

// What people write for a period in place of it gets an error that says what to write. Local is refused: it
// would be another period on each machine.
func TestNearestPeriod(t *testing.T) {
	for text, want := range map[string]string{
		"daily": "day", "days": "day", "Day": "day", "1d": "day", "2d": "48h", "1w": "week", "weekly": "week", "hourly": "hour",
		"annually": "year", "dya": "day", "day Zurich": "day Europe/Zurich", "day new york": "day America/New_York",
		"day europe/zurich": "day Europe/Zurich", "month utc": "month UTC", "day Nowhere": "", "day Local": "", "never": "", "": "", " ": "", "0d": "",
	} {
		if got := nearestPeriod(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
