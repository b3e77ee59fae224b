package avisofile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// spelled is an entry with the spelling that its key has in the file.
type spelled struct {
	name string
	entry
}

// document is a parsed state file whose versions and keys are not checked yet.
type document struct {
	version, keyVersion uint64
	checkpoints         []spelled
}

// decode reads a state file. It reports the first error in the order of the format:
// malformed JSON anywhere, then the file's version, then the version of the keys, then a
// key. It reads the same files as the format's own program. Like that program, it accepts
// an array of all fields in the place of an object.
//
// If a key occurs twice, the last occurrence counts, as in that program. Of two spellings
// of a key (lower and upper case) the one with the higher sequence counts, so that the
// order in the file moves no checkpoint back.
func decode(b []byte) (state, error) {
	p := &parser{b: b}
	doc, err := p.document()
	if err != nil {
		return nil, malformed(b, err)
	}
	if doc.version != 1 {
		return nil, &LoadError{Err: ErrFileVersion, Detail: fmt.Sprintf("the file has version %d, but this program reads only version 1", doc.version)}
	}
	if doc.keyVersion != 1 {
		return nil, &LoadError{Err: ErrKeyVersion, Detail: fmt.Sprintf("the file has key format version %d, but this program reads only version 1", doc.keyVersion)}
	}
	for i := range doc.checkpoints {
		c := &doc.checkpoints[i]
		if c.key, err = parseDigest(c.name); err != nil {
			return nil, &LoadError{Err: ErrFileKey, Detail: fmt.Sprintf("the key %.80q is not 64 hexadecimal digits", c.name)}
		}
	}
	return sortUnique(doc.checkpoints), nil
}

// readDamaged returns the entries that can be read in a damaged state file: those before the
// fault whose keys are valid.
func readDamaged(b []byte) state {
	doc, _ := (&parser{b: b}).document()
	valid := doc.checkpoints[:0]
	for _, c := range doc.checkpoints {
		var err error
		if c.key, err = parseDigest(c.name); err == nil {
			valid = append(valid, c)
		}
	}
	return sortUnique(valid)
}

// sortUnique sorts the entries and keeps one for each key.
func sortUnique(all []spelled) state {
	order := func(a, b spelled) int {
		return cmp.Or(bytes.Compare(a.key[:], b.key[:]), strings.Compare(a.name, b.name))
	}
	slices.SortStableFunc(all, order)
	s := make(state, 0, len(all))
	for i, c := range all {
		if i+1 < len(all) && all[i+1].name == c.name {
			continue // a later occurrence of the same spelling counts
		}
		if n := len(s); n > 0 && s[n-1].key == c.key {
			if c.sequence > s[n-1].sequence {
				s[n-1] = c.entry
			}
			continue
		}
		s = append(s, c.entry)
	}
	return s
}

// malformed returns an error that says where and how a file is malformed.
func malformed(b []byte, err error) *LoadError {
	e := &LoadError{Err: ErrMalformed}
	var at *syntaxError
	switch {
	case len(b) == 0:
		e.Detail = "it is empty"
	case !errors.As(err, &at):
		e.Detail = err.Error()
	case at.offset >= len(b):
		e.Detail = fmt.Sprintf("the file ends too early, after %d bytes", len(b))
	default:
		before := b[:at.offset]
		line := 1 + bytes.Count(before, []byte("\n"))
		column := at.offset - bytes.LastIndexByte(before, '\n')
		e.Detail = fmt.Sprintf("line %d, column %d: %s", line, column, at.text)
	}
	return e
}

// document parses the whole file.
func (p *parser) document() (document, error) {
	var doc document
	var seen [3]bool
	fields := []string{"version", "key_format_version", "checkpoints"}
	err := p.structure(fields, seen[:], 3, func(field int) (err error) {
		switch field {
		case 0:
			doc.version, err = p.unsigned(math.MaxUint32)
		case 1:
			doc.keyVersion, err = p.unsigned(math.MaxUint32)
		case 2:
			doc.checkpoints, err = p.checkpoints()
		}
		return err
	})
	if err != nil {
		return doc, err
	}
	p.space()
	if p.i < len(p.b) {
		return doc, p.fail("the file continues after the end of the JSON object")
	}
	return doc, nil
}

// checkpoints parses the map of entries.
func (p *parser) checkpoints() ([]spelled, error) {
	var all []spelled
	err := p.object(func(name string) error {
		e, err := p.entry()
		if err == nil {
			all = append(all, spelled{name, e})
		}
		return err
	})
	return all, err
}

// entry parses one checkpoint.
func (p *parser) entry() (entry, error) {
	var e entry
	var seen [2]bool
	fields := []string{"last_committed_sequence", "last_event_id"}
	err := p.structure(fields, seen[:], 1, func(field int) (err error) {
		switch field {
		case 0:
			e.sequence, err = p.unsigned(math.MaxUint64)
		case 1:
			e.event, e.named, err = p.optionalText()
		}
		return err
	})
	return e, err
}
