package picture

import (
	"fmt"
	"math"
	"time"
)

// Latency is how long one operation took, in many measurements.
type Latency struct {
	Operation            string
	Least, Median        time.Duration
	P90, P99, Most       time.Duration
	RequestsPerOperation float64
}

// Latencies draws one row for each operation, on a logarithmic axis of time, as an SVG file.
func Latencies(title, subtitle string, all []Latency) []byte {
	const (
		rise = 34.0
		left = 270.0
		top  = 76.0
	)
	least, most := math.Inf(1), 0.0
	for _, l := range all {
		least, most = min(least, micros(l.Least)), max(most, micros(l.Most))
	}
	if len(all) == 0 {
		least, most = 1, 10
	}
	// Whole decades.
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if high <= low {
		high = low + 1
	}
	right := float64(pageWidth - margin - 90)
	x := func(d time.Duration) float64 {
		return left + (math.Log10(micros(d))-low)/(high-low)*(right-left)
	}
	bottom := top + float64(max(len(all), 1))*rise
	s := newSVG(pageWidth, bottom+64, title, []string{subtitle}, "")
	s.text(margin, 28, "t", title, ` font-size="15" font-weight="bold"`)
	s.text(margin, 48, "f", cut(clean(subtitle), 120), "")
	for decade := low; decade <= high; decade++ {
		at := time.Duration(math.Pow(10, decade) * float64(time.Microsecond))
		s.rule(x(at), top-8, x(at), bottom)
		s.text(x(at), bottom+18, "f", at.String(), ` text-anchor="middle"`)
	}
	for i, l := range all {
		y := top + float64(i)*rise
		s.text(margin, y+15, "t", cut(clean(l.Operation), 32), "")
		tooltip := fmt.Sprintf("%s: %v to %v, median %v, 90 %% within %v, 99 %% within %v, %.3g requests", l.Operation, l.Least, l.Most, l.Median, l.P90, l.P99, l.RequestsPerOperation)
		fill := fills[0]
		s.bar(x(l.Least), y+9, max(x(l.Most)-x(l.Least), 1), 3, fmt.Sprintf(` fill="%s" fill-opacity="0.6"`, fill), tooltip)
		s.bar(x(l.Least), y+3, max(x(l.P90)-x(l.Least), 1), 15, fmt.Sprintf(` rx="3" fill="%s"`, fill), tooltip)
		s.bar(x(l.P99)-1, y+1, 2, 19, fmt.Sprintf(` class="a" fill="%s"`, alertColor), tooltip)
		s.bar(x(l.Median)-1.5, y-1, 3, 23, fmt.Sprintf(` class="t" fill="%s"`, textColor), tooltip)
		s.text(pageWidth-margin, y+15, "t", short(l.Median), ` text-anchor="end"`)
	}
	s.rule(left, bottom, right, bottom)
	y := bottom + 46
	s.bar(margin, y-12, 24, 15, fmt.Sprintf(` rx="3" fill="%s"`, fills[0]), "90 %")
	s.text(margin+32, y, "f", "from the fastest to 90 %", "")
	s.bar(left, y-15, 3, 21, fmt.Sprintf(` class="t" fill="%s"`, textColor), "median")
	s.text(left+10, y, "f", "median, and its time on the right", "")
	s.bar(left+280, y-14, 2, 19, fmt.Sprintf(` class="a" fill="%s"`, alertColor), "99 %")
	s.text(left+290, y, "f", "99 %", "")
	s.bar(left+340, y-6, 30, 3, fmt.Sprintf(` fill="%s" fill-opacity="0.6"`, fills[0]), "slowest")
	s.text(left+378, y, "f", "to the slowest", "")
	return s.end()
}

// micros returns a time in microseconds, at least a tenth.
func micros(d time.Duration) float64 { return max(float64(d.Nanoseconds())/1000, 0.1) }

// short writes a time with three digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
