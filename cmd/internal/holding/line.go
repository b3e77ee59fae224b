package holding

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/drivers/jsontext"
	"github.com/holdfast-go/holdfast/lease"
)

// lineCommand is one line of the input of hold --commands. Its fields are stable.
type lineCommand struct {
	Command string // acquire, try, release, data, refuse or close
	ID      string
	Lock    string
	WaitMS  *int64
	Data    *string
	Base64  []byte
	Reason  *string
	Shared  bool
	Slots   *int
	Fair    bool
}

// inputLine is one line of the input. The last has no text.
type inputLine struct {
	number int
	text   []byte
	err    error // it cannot be read as a line
	last   bool  // the input has ended
}

// readLines sends the lines of r. It keeps at most [maxLine] bytes, however long a line is.
func readLines(r io.Reader, stop <-chan struct{}) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		in := bufio.NewReaderSize(r, maxLine)
		for number := 1; ; number++ {
			text, err := in.ReadSlice('\n')
			line := inputLine{number: number, text: bytes.Clone(text)}
			for errors.Is(err, bufio.ErrBufferFull) {
				line.text, line.err = nil, fmt.Errorf("the line has more than %d bytes", maxLine)
				_, err = in.ReadSlice('\n')
			}
			if err != nil { // a read error ends the input, too
				line.last = true
				if len(bytes.TrimSpace(text)) > 0 {
					line.err = errors.New("the input ends in the middle of the line")
				}
			}
			select {
			case lines <- line:
			case <-stop:
				return
			}
			if line.last {
				return
			}
		}
	}()
	return lines
}

// parseLine reads a command. With an error it returns what can be said of whose it is.
func parseLine(text []byte) (c lineCommand, err error) {
	if !utf8.Valid(text) {
		return c, errors.New("the line is not UTF-8")
	}
	if err = c.read(text); err == nil {
		err = c.check()
	}
	if err != nil && len(c.ID) > maxID {
		c.ID = ""
	}
	return c, err
}

// read reads the fields of a line that is one JSON object, each of which it has once at most.
func (c *lineCommand) read(text []byte) (err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	switch begin, err := dec.Token(); {
	case err != nil:
		return notJSON(err)
	case begin != json.Delim('{'):
		if !json.Valid(text) {
			return notJSON(errors.New("the line does not begin with {"))
		}
		return fmt.Errorf("the line is not a JSON object, but %s", brief(text))
	}
	values := map[string]json.RawMessage{}
	for dec.More() {
		key, keyErr := dec.Token()
		var value json.RawMessage
		if keyErr == nil {
			keyErr = dec.Decode(&value)
		}
		if keyErr != nil {
			return notJSON(keyErr)
		}
		name := key.(string) // the key of an object
		if values[name] != nil && err == nil {
			err = fmt.Errorf("the line has the field %q twice", name)
		}
		values[name] = value
	}
	if _, end := dec.Token(); end != nil {
		return notJSON(end)
	}
	if _, end := dec.Token(); end != io.EOF {
		return errors.New("the line has more than one JSON object")
	}
	if err != nil {
		return err // not even its id is certain
	}
	// The id first: the answer to any other fault has it.
	for _, name := range append([]string{"id"}, slices.Sorted(maps.Keys(values))...) {
		value, given := values[name]
		field, known := c.field(name)
		// Go would read one half of a surrogate pair as another character. Then two ids would be one.
		switch {
		case !given:
		case !known:
			return fmt.Errorf("unknown field %q%s", brief([]byte(name)), output.DidYouMean(output.Nearest(brief([]byte(name)), slices.Concat(slices.Collect(maps.Values(lineFields))...))))
		case string(value) == "null" || jsontext.LoneSurrogate(value) >= 0 || json.Unmarshal(value, field.to) != nil, name == "data_base64" && value[0] != '"':
			return fmt.Errorf("%q takes %s, not %s", name, field.takes, brief(value))
		}
	}
	return nil
}

func notJSON(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the line is not JSON: %w", err)
}

// lineField is a field of a line of the input.
type lineField struct {
	to    any
	takes string // for people
}

// field returns the field of that name.
func (c *lineCommand) field(name string) (f lineField, known bool) {
	f, known = map[string]lineField{
		"command":     {&c.Command, "a string"},
		"id":          {&c.ID, fmt.Sprintf("a string of 1 to %d bytes", maxID)},
		"lock":        {&c.Lock, "a string"},
		"wait_ms":     {&c.WaitMS, fmt.Sprintf("a whole number from 0 to %d", maxWaitMS)},
		"data":        {&c.Data, "a string"},
		"data_base64": {&c.Base64, "a string of base64"},
		"reason":      {&c.Reason, "a string"},
		"shared":      {&c.Shared, "true or false"},
		"slots":       {&c.Slots, fmt.Sprintf("a whole number from 1 to %d", lease.MaxMembers)},
		"fair":        {&c.Fair, "true or false"},
	}[name]
	return f, known
}

// maxWaitMS is the longest wait_ms.
const maxWaitMS = int64(cmdline.MaxSeconds * 1000)

// brief returns a JSON value, as much of it as an error has room for.
func brief(value []byte) string {
	const most = 40 // bytes
	value = bytes.TrimSpace(value)
	if len(value) > most {
		return strings.ToValidUTF8(string(value[:most]), "") + "..."
	}
	return string(value)
}

// lineFields are the fields that each command takes besides its id.
var lineFields = map[string][]string{
	"acquire": {"lock", "shared", "slots", "fair", "wait_ms"},
	"try":     {"lock", "shared", "slots", "fair"},
	"release": {},
	"data":    {"data", "data_base64"},
	"refuse":  {"reason"},
	"close":   {},
}

func (c *lineCommand) check() error {
	fields, known := lineFields[c.Command]
	switch {
	case c.Command == "":
		return errors.New(`"command" is missing`)
	case !known:
		return fmt.Errorf("unknown command %q: use acquire, try, release, data, refuse or close", brief([]byte(c.Command)))
	case c.ID == "" && c.Command != "close":
		return errors.New(`"id" is missing`)
	case len(c.ID) > maxID:
		return fmt.Errorf(`"id" has more than %d bytes`, maxID)
	}
	for field, given := range map[string]bool{"lock": c.Lock != "", "wait_ms": c.WaitMS != nil, "data": c.Data != nil, "data_base64": c.Base64 != nil, "reason": c.Reason != nil, "shared": c.Shared, "slots": c.Slots != nil, "fair": c.Fair} {
		if given && !slices.Contains(fields, field) {
			return fmt.Errorf("the command %[2]s has no field %[1]q", field, c.Command)
		}
	}
	if c.Data != nil && c.Base64 != nil {
		return errors.New(`"data" and "data_base64" exclude each other`)
	}
	if c.Slots != nil && c.Shared {
		return errors.New(`"shared" and "slots" exclude each other`)
	}
	for name, wrong := range map[string]bool{
		"slots":   c.Slots != nil && (*c.Slots < 1 || *c.Slots > lease.MaxMembers),
		"wait_ms": c.WaitMS != nil && (*c.WaitMS < 0 || *c.WaitMS > maxWaitMS),
	} {
		if field, _ := c.field(name); wrong {
			value, _ := json.Marshal(field.to)
			return fmt.Errorf("%q takes %s, not %s", name, field.takes, value)
		}
	}
	if slices.Contains(fields, "lock") {
		return leases.CheckLockName(c.Lock)
	}
	return nil
}
