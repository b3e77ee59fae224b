package items

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// itemView is an item as it is printed. Its fields are stable.
type itemView struct {
	Key        json.RawMessage          `json:"key"` // an array of one value or two
	Attributes json.RawMessage          `json:"attributes"`
	Large      map[string]referenceView `json:"large"`

	// Foreign are attributes that look like references and are not followed, with the reason.
	Foreign map[string]string `json:"foreign,omitempty"`
}

// referenceView is a large attribute.
type referenceView struct {
	URI    string `json:"uri"`
	Size   *int64 `json:"size,omitempty"` // in bytes; missing where the reference does not tell it
	SHA256 string `json:"sha256,omitempty"`
	MD5    string `json:"md5,omitempty"`
}

func viewReference(r largeitem.Reference) referenceView {
	v := referenceView{URI: r.URI, SHA256: fmt.Sprintf("%x", r.SHA256), MD5: fmt.Sprintf("%x", r.MD5)}
	if r.Size >= 0 {
		v.Size = &r.Size
	}
	return v
}

func viewItem(i *largeitem.Item, typed bool) (itemView, error) {
	v := itemView{Large: map[string]referenceView{}}
	var err error
	if v.Key, err = i.Key.MarshalText(); err != nil {
		return v, err
	}
	write := largeitem.MarshalPlain
	if typed {
		write = largeitem.MarshalTyped
	}
	attrs := i.Attributes
	if attrs == nil {
		attrs = largeitem.Attributes{}
	}
	if v.Attributes, err = write(attrs); err != nil {
		return v, err
	}
	for name, r := range i.Refs {
		v.Large[name] = viewReference(r)
	}
	for name, why := range i.Foreign {
		if v.Foreign == nil {
			v.Foreign = map[string]string{}
		}
		v.Foreign[name] = output.OneLine(why)
	}
	return v, nil
}

// wroteView is the result of put and rm. Its fields are stable.
type wroteView struct {
	Key        json.RawMessage `json:"key"`
	Existed    *bool           `json:"existed,omitempty"` // only of rm; missing if it is not known
	Puts       []putView       `json:"puts,omitempty"`
	Superseded []string        `json:"superseded"` // objects that the item does not refer to any more
	Removed    int             `json:"removed"`    // how many of them were removed
}

type putView struct {
	Attr     string `json:"attr"`
	Uploaded bool   `json:"uploaded"` // false: the item referred to the same content already
	referenceView
}

func viewWrote(k largeitem.Key, r *largeitem.Result) wroteView {
	v := wroteView{Superseded: []string{}, Removed: r.Removed}
	v.Key, _ = k.MarshalText() // the key was valid for the write
	for _, p := range r.Puts {
		v.Puts = append(v.Puts, putView{p.Attr, p.Uploaded, viewReference(p.Reference)})
	}
	for _, s := range r.Superseded {
		v.Superseded = append(v.Superseded, s.URI)
	}
	return v
}

func (a *access) printWrote(v wroteView) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	for _, p := range v.Puts {
		what := "unchanged"
		if p.Uploaded {
			what = "uploaded"
		}
		if _, err := fmt.Fprintf(a.Stdout, "%s\t%s\t%s\n", printable.Text(p.Attr), what, printable.Text(p.URI)); err != nil {
			return err
		}
	}
	return nil
}

// writtenKey returns a key as [parseKey] reads it, or would if no value had a slash.
func writtenKey(k largeitem.Key) string {
	if !k.HasSort() {
		return k.Partition.Text
	}
	return k.Partition.Text + "/" + k.Sort.Text
}

func (a *access) printItem(i *largeitem.Item, typed bool) error {
	v, err := viewItem(i, typed)
	if err != nil {
		return err
	}
	line := printable.Text(string(v.Key))
	for _, name := range slices.Sorted(maps.Keys(v.Large)) {
		size := "?"
		if n := v.Large[name].Size; n != nil {
			size = fmt.Sprint(*n)
		}
		line += "\t" + printable.Text(name) + "=" + size
	}
	for _, name := range slices.Sorted(maps.Keys(v.Foreign)) {
		line += "\t" + printable.Text(name) + "=foreign"
	}
	return a.PrintLine(v, line)
}
