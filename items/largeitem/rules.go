package largeitem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// MaxDepth is the largest depth of nested lists and maps. A text has depth 1, a list of texts
	// has depth 2.
	MaxDepth = 32

	// maxName is the longest name of an attribute, in bytes.
	maxName = 64<<10 - 1
)

// Check returns an error if an attribute has a name or a value that is never allowed. The error
// matches [ErrInvalid].
func (a Attributes) Check() error {
	for name, value := range a {
		if err := checkName(name); err != nil {
			return err
		}
		if err := checkValue(value, 1); err != nil {
			return fmt.Errorf("the attribute %.80q: %w", name, err)
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: an attribute has an empty name", ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("%w: the name of an attribute has %d bytes, at most %d are allowed", ErrInvalid, len(name), maxName)
	}
	return checkText(name)
}

func checkText(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%w: %.60q is not valid UTF-8", ErrInvalid, text)
	}
	return nil
}

func checkDepth(depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%w: lists and maps are nested deeper than %d", ErrInvalid, MaxDepth)
	}
	return nil
}

func checkValue(v any, depth int) error {
	if err := checkDepth(depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil, bool, []byte:
		return nil
	case string:
		return checkText(v)
	case Number:
		_, err := v.Canonical()
		return err
	case []any:
		for _, element := range v {
			if err := checkValue(element, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for name, element := range v {
			if err := checkName(name); err != nil {
				return err
			}
			if err := checkValue(element, depth+1); err != nil {
				return err
			}
		}
		return nil
	case StringSet:
		return checkSet(v, func(text string) (string, error) { return text, checkText(text) })
	case NumberSet:
		return checkSet(v, numberText)
	case BinarySet:
		return checkSet(v, bytesText)
	}
	return fmt.Errorf("%w: a value has the type %T; use string, Number, []byte, bool, nil, []any, map[string]any, StringSet, NumberSet or BinarySet", ErrInvalid, v)
}

func checkSet[T any](set []T, text func(T) (string, error)) error {
	if len(set) == 0 {
		return fmt.Errorf("%w: a set is empty", ErrInvalid)
	}
	_, err := setOf(set, text)
	return err
}

// Check returns an error if the schema is not valid. The error matches [ErrInvalid].
func (s Schema) Check() error {
	for _, a := range []KeyAttribute{s.Partition, s.Sort} {
		if a == (KeyAttribute{}) {
			continue
		}
		if err := checkName(a.Name); err != nil {
			return fmt.Errorf("the key attribute of the table %s: %w", s.Name, err)
		}
	}
	switch {
	case s.Partition.Name == "":
		return fmt.Errorf("%w: the table %s has no partition key", ErrInvalid, s.Name)
	case s.Partition.Name == s.Sort.Name:
		return fmt.Errorf("%w: the partition key and the sort key of the table %s are the same attribute, %q", ErrInvalid, s.Name, s.Sort.Name)
	case s.MaxItem < 0 || s.MaxItem > MaxItem:
		return fmt.Errorf("%w: MaxItem of the table %s is %d; at most %d is allowed", ErrInvalid, s.Name, s.MaxItem, MaxItem)
	}
	return nil
}

// ItemSize returns the size of an item with its key, in bytes; see [Attributes].Size.
func (s Schema) ItemSize(key Key, item Attributes) int {
	n := item.Size()
	for name, v := range map[string]KeyValue{s.Partition.Name: key.Partition, s.Sort.Name: key.Sort} {
		if v != (KeyValue{}) {
			n += len(name) + sizeOf(v.Any())
		}
	}
	return n
}

// CheckItem returns an error if the table cannot store the item. If the key is not valid, the error
// matches [ErrKey]. If the item is too large, the error matches [store.ErrTooLarge]. If an
// attribute is not valid or has the name of a key attribute, the error matches [ErrInvalid].
func (s Schema) CheckItem(key Key, item Attributes) error {
	if err := s.CheckKey(key); err != nil {
		return err
	}
	if err := s.checkNames(item); err != nil {
		return err
	}
	limit := cmp.Or(s.MaxItem, MaxItem)
	if size := s.ItemSize(key, item); size > limit {
		return fmt.Errorf("%w: the item %.200v has %d bytes, but an item of the table %s can have at most %d; store large attributes in the bucket",
			store.ErrTooLarge, key, size, s.Name, limit)
	}
	return nil
}

// CheckChange returns an error if the change is not valid. The error matches [ErrInvalid].
// CheckChange does not check Expr.
func (s Schema) CheckChange(c Change) error {
	if err := s.checkNames(c.Set, c.Remove...); err != nil {
		return err
	}
	for i, name := range c.Remove {
		if _, set := c.Set[name]; set || slices.Contains(c.Remove[:i], name) {
			return fmt.Errorf("%w: the change names the attribute %.80q twice", ErrInvalid, name)
		}
	}
	return nil
}

// CheckCondition returns an error if the condition is not valid or can never hold. The error
// matches [ErrInvalid]. If the condition is nil, CheckCondition returns nil. It does not check
// Expr.
func (s Schema) CheckCondition(c *Condition) error {
	if c == nil {
		return nil
	}
	if err := s.checkNames(c.Equal, c.Missing...); err != nil {
		return err
	}
	if c.Absent && (c.Exists || len(c.Equal) > 0) {
		return fmt.Errorf("%w: the condition contradicts itself: it requires that the item does not exist, and it names attributes of the item", ErrInvalid)
	}
	for _, name := range c.Missing {
		if _, equal := c.Equal[name]; equal {
			return fmt.Errorf("%w: the condition has the attribute %.80q both in Equal and in Missing", ErrInvalid, name)
		}
	}
	return nil
}

// checkNames checks attributes and further names, none of which may be of the key.
func (s Schema) checkNames(a Attributes, names ...string) error {
	if err := a.Check(); err != nil {
		return err
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	for _, k := range []KeyAttribute{s.Partition, s.Sort} {
		if _, set := a[k.Name]; k.Name != "" && (set || slices.Contains(names, k.Name)) {
			return fmt.Errorf("%w: the attribute %.80q is a part of the key, which a write cannot change; leave the attribute out", ErrInvalid, k.Name)
		}
	}
	return nil
}

// ConditionFunc is the type of [Condition].Expr in memtable and storetable. The function reports
// whether the condition holds for the item. If there is no item, the argument is nil. The function
// must not change the item. The table may call the function several times.
type ConditionFunc func(item Attributes) bool

// ChangeFunc is the type of [Change].Expr in memtable and storetable. The function changes the item
// in place. The table calls the function before it applies Set and Remove. If the function returns
// an error, the table writes nothing. The table may call the function several times.
type ChangeFunc func(item Attributes) error

// Holds reports whether the condition holds for an item. If there is no item, the argument is nil.
// A nil condition always holds. If Expr is not a [ConditionFunc], the error matches [ErrInvalid].
func (c *Condition) Holds(item Attributes) (bool, error) {
	if c == nil {
		return true, nil
	}
	if c.Absent && item != nil || c.Exists && item == nil {
		return false, nil
	}
	for name, want := range c.Equal {
		if got, ok := item[name]; !ok || !Equal(got, want) {
			return false, nil
		}
	}
	for _, name := range c.Missing {
		if _, ok := item[name]; ok {
			return false, nil
		}
	}
	if c.Expr == nil {
		return true, nil
	}
	f, ok := c.Expr.(ConditionFunc)
	if !ok {
		return false, fmt.Errorf("%w: Condition.Expr has the type %T, which this table cannot use", ErrInvalid, c.Expr)
	}
	return f(item.Clone()), nil
}

// funcError is the error of a ChangeFunc. It is no answer of the table, whatever it matches.
type funcError struct{ error }

func (e *funcError) Unwrap() error          { return e.error }
func (e *funcError) Outcome() store.Outcome { return store.NotApplied }

// Apply takes an item and returns the item after the change. The argument is nil if there is no
// item. The result shares no memory with the item or the change. The error matches [ErrInvalid] in
// two cases: Expr is not a [ChangeFunc], or Expr changes an attribute that Set or Remove names.
func (c Change) Apply(item Attributes) (Attributes, error) {
	next := item.Clone()
	if next == nil {
		next = Attributes{}
	}
	if c.Expr != nil {
		f, ok := c.Expr.(ChangeFunc)
		if !ok {
			return nil, fmt.Errorf("%w: Change.Expr has the type %T, which this table cannot use", ErrInvalid, c.Expr)
		}
		if err := f(next); err != nil {
			return nil, &funcError{err}
		}
		for _, name := range c.names() {
			before, was := item[name]
			after, is := next[name]
			if was != is || was && !Equal(before, after) {
				return nil, fmt.Errorf("%w: Change.Expr changes the attribute %.80q, which is also in Set or Remove", ErrInvalid, name)
			}
		}
	}
	for name, value := range c.Set {
		next[name] = cloneValue(value)
	}
	for _, name := range c.Remove {
		delete(next, name)
	}
	return next, nil
}

// names returns the attributes that Set and Remove name.
func (c Change) names() []string {
	return slices.AppendSeq(slices.Clone(c.Remove), maps.Keys(c.Set))
}
