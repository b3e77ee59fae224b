package faultstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Parse reads the text of a schedule; see [Schedule.String]. Semicolons or line breaks separate the
// rules.
func Parse(text string) (Schedule, error) {
	var s Schedule
	rules, err := split(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule: %w", err)
	}
	for _, words := range rules {
		if words[0].is("seed") && len(words) == 2 {
			if s.Seed, err = strconv.ParseUint(words[1].text, 10, 64); err != nil {
				return Schedule{}, fmt.Errorf("schedule: seed %q: %w", words[1].text, err)
			}
			continue
		}
		r, err := parseRule(words)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule: rule %d: %w", len(s.Rules)+1, err)
		}
		s.Rules = append(s.Rules, r)
	}
	return s, nil
}

// MustParse does the same as [Parse], but panics if the text is not valid. Use it for
// schedules in the source text of a program.
func MustParse(text string) Schedule {
	s, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// word is a word of a rule.
type word struct {
	text   string
	quoted bool // a quoted word is a key and nothing else
}

func (w word) is(text string) bool { return !w.quoted && w.text == text }

// split returns the rules as words. Empty rules are left out.
func split(text string) (rules [][]word, err error) {
	var rule []word
	end := func() {
		if len(rule) > 0 {
			rules = append(rules, rule)
		}
		rule = nil
	}
	for text != "" {
		switch c := text[0]; c {
		case ' ', '\t', '\r':
			text = text[1:]
		case ';', '\n':
			end()
			text = text[1:]
		case '"':
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, fmt.Errorf("the quoted key %.40s has no closing quote", text)
			}
			key, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("the quoted key %s: %w", quoted, err)
			}
			rule = append(rule, word{key, true})
			text = text[len(quoted):]
		default:
			n := strings.IndexAny(text, " \t\r\n;\"")
			if n < 0 {
				n = len(text)
			}
			rule = append(rule, word{text[:n], false})
			text = text[n:]
		}
	}
	end()
	return rules, nil
}

func parseRule(words []word) (r Rule, err error) {
	if len(words) < 3 {
		return r, errors.New("it has fewer than three words; it needs an operation, a key and an action")
	}
	if words[0].quoted {
		return r, fmt.Errorf("it begins with the quoted word %q; the first word must be an operation, without quotes", words[0].text)
	}
	r.Op = store.Kind(words[0].text)
	if !words[1].is("*") {
		r.Key = words[1].text
	}
	if r.Key == "" && words[1].quoted {
		return r, errors.New("the key is empty; write * for any key")
	}
	for i := 2; i < len(words) && err == nil; i++ {
		text := words[i].text
		switch {
		case words[i].quoted:
			return r, fmt.Errorf("the word %q after the key is quoted; only the key may be quoted", text)
		case r.Action != "" && i < len(words)-1:
			return r, fmt.Errorf("too many words follow %q; one time or one count may follow an action", text)
		case r.Action != "":
			err = r.parseWhen(text)
		case strings.HasPrefix(text, "#"):
			err = r.parseCalls(text[1:])
		case strings.HasPrefix(text, "%"):
			r.Chance, err = strconv.ParseFloat(text[1:], 64)
			if err == nil && r.Chance == 0 {
				err = errors.New("the chance is 0, so the rule would never apply")
			}
		default:
			r.Action = Action(text)
		}
	}
	return r, err
}

// parseCalls reads N, N- or N-M.
func (r *Rule) parseCalls(text string) (err error) {
	first, last, ranged := strings.Cut(text, "-")
	if r.First, err = positive(first); err != nil {
		return err
	}
	switch {
	case !ranged:
		r.Last = r.First
	case last != "":
		r.Last, err = positive(last)
	}
	return err
}

// parseWhen reads what follows the action: +N, a time, or a range of times.
func (r *Rule) parseWhen(text string) (err error) {
	if calls, ok := strings.CutPrefix(text, "+"); ok {
		r.Calls, err = positive(calls)
		return err
	}
	wait, upto, ranged := strings.Cut(text, "~")
	if r.Wait, err = time.ParseDuration(wait); err == nil && ranged {
		r.MaxWait, err = time.ParseDuration(upto)
		if err == nil && r.MaxWait <= r.Wait {
			err = fmt.Errorf("in %q the second time must be longer than the first", text)
		}
	}
	return err
}

func positive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("the number %d must be at least 1", n)
	}
	return n, err
}
