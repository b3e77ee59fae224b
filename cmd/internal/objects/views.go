package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
)

// objectView is an object as it is printed with --json. Its fields are stable.
type objectView struct {
	URL         string     `json:"url"`
	Key         string     `json:"key"`
	Version     string     `json:"version"`
	Size        int64      `json:"size"`
	Modified    *time.Time `json:"modified,omitempty"`
	ContentType string     `json:"content_type,omitempty"`
	object.Headers
	Metadata map[string]string `json:"metadata,omitempty"`
	WriteID  string            `json:"write_id,omitempty"`
	Fence    *fenceView        `json:"fence,omitempty"`

	// Only in the output of stat: how each kind of conditional write is made safe, or why
	// that is not known.
	Conditions        []conditionView `json:"conditions,omitempty"`
	ConditionsUnknown string          `json:"conditions_unknown,omitempty"`
	Reservations      string          `json:"reservations,omitempty"` // the table of [object.StrategyReservation]
	Index             string          `json:"index,omitempty"`        // whose registers have the conditions
}

// removedView is an object that rm has removed, as it is printed with --json. Its fields are
// stable.
type removedView struct {
	URL string `json:"url"`
	Key string `json:"key"`
}

// conditionView is how one kind of conditional write is made safe.
type conditionView struct {
	Ability  string `json:"ability"`          // an [object.Ability], with underscores
	Strategy string `json:"strategy"`         // an [object.Strategy]; native is the store's own condition
	Native   bool   `json:"native_check"`     // the store itself also checks the condition
	Reason   string `json:"reason,omitempty"` // why the write is impossible
}

// strategies adds how conditional writes are made safe. It tests once what the server does.
func (v *objectView) strategies(ctx context.Context, b stores.Bucket) {
	steps, err := b.Strategies(ctx)
	v.ConditionsUnknown = output.OneLine(err)
	for _, s := range steps {
		v.Conditions = append(v.Conditions, conditionView{
			Ability: strings.ReplaceAll(string(s.Ability), "-", "_"), Strategy: string(s.Strategy), Native: s.Native, Reason: output.OneLine(s.Err),
		})
	}
	if b.Reservations != nil {
		v.Reservations = b.Reservations.Name
	}
	v.Index = b.Index
}

// strategyTexts are the rungs of the ladder for people.
var strategyTexts = map[object.Strategy]string{
	object.StrategyCondition:      "the store's own condition",
	object.StrategyMultipart:      "an upload in parts, with the condition on its completion",
	object.StrategyDownloadUpload: "a read and a put of the object, with the condition",
	object.StrategyReservation:    "a reservation",
	object.StrategyNone:           "not possible",
}

// text formats the condition for people.
func (c conditionView) text(reservations, index string) string {
	text := strategyTexts[object.Strategy(c.Strategy)]
	switch {
	case c.Strategy == string(object.StrategyCondition) && index != "":
		text = "the condition of a register in the index " + index
	case c.Strategy == string(object.StrategyReservation) && c.Native:
		text += " in " + reservations + ", and the store's own condition"
	case c.Strategy == string(object.StrategyReservation):
		text += " in " + reservations
	case c.Reason != "":
		text += ": " + c.Reason
	}
	return text
}

// fenceView is the fence of an object.
type fenceView struct {
	Lock  string `json:"lock"`
	Token uint64 `json:"token"`
}

func objectViewOf(b stores.Bucket, info object.Info) objectView {
	v := objectView{
		URL: urlOf(b, info.Key), Key: info.Key, Version: string(info.Version), Size: info.Size,
		ContentType: info.ContentType, Headers: info.Headers, Metadata: info.Metadata, WriteID: info.WriteInfo.ID,
		Modified: printable.Time(info.Modified),
	}
	if f := info.WriteInfo.Fence; f != nil {
		v.Fence = &fenceView{f.Lock, f.Token}
	}
	return v
}

// urlOf returns the URL of an object in the bucket, without parameters.
func urlOf(b stores.Bucket, key string) string {
	return stores.Escaped(b.URL) + "/" + (&url.URL{Path: key}).EscapedPath()
}

// printObject prints what was written without an error: its version, or the whole view with --json.
func (a *access) printObject(b stores.Bucket, info object.Info, err error) error {
	if err != nil {
		return err
	}
	return a.Print(objectViewOf(b, info), printable.Text(string(info.Version)))
}

func (a *access) printStat(v objectView) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	to := a.Table()
	w := output.Columns(to)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, printable.Text(value))
		}
	}
	line("url", v.URL)
	line("version", v.Version)
	line("size", fmt.Sprint(v.Size))
	if v.Modified != nil {
		line("modified", v.Modified.Local().Format(time.RFC3339))
	}
	line("content-type", v.ContentType)
	line("cache-control", v.CacheControl)
	line("content-disposition", v.ContentDisposition)
	line("content-encoding", v.ContentEncoding)
	line("content-language", v.ContentLanguage)
	if v.Fence != nil {
		line("fence", fmt.Sprintf("token %d of the lock %s", v.Fence.Token, v.Fence.Lock))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Metadata)) {
		line("metadata", name+"="+v.Metadata[name])
	}
	for _, c := range v.Conditions {
		line(c.Ability, c.text(v.Reservations, v.Index))
	}
	line("conditions", v.ConditionsUnknown)
	return errors.Join(w.Flush(), to.Close())
}

// printListed prints one object of a listing. A listing can be long.
func (a *access) printListed(v objectView) error {
	modified := "-"
	if v.Modified != nil {
		modified = v.Modified.UTC().Format(time.RFC3339)
	}
	return a.PrintLine(v, fmt.Sprintf("%d\t%s\t%s\t%s", v.Size, modified, printable.Text(v.Version), printable.Text(v.Key)))
}
