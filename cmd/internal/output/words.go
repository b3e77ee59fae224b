package output

import (
	"errors"
	"io/fs"
	"strings"
)

// Quote quotes s for a shell, if s needs that.
func Quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:+@%=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// DidYouMean returns the end of a message that proposes words; nothing if there is no word, or one that
// is empty.
func DidYouMean(words ...string) string {
	text := strings.Join(words, `" or "`)
	if text == "" {
		return ""
	}
	return `. Did you mean "` + text + `"?`
}

// Nearest returns the word that the user most likely meant: one that begins with the typed
// text, or the nearest one that differs in at most two letters. It is empty if there is
// none.
func Nearest(typed string, words []string) string {
	best, least := "", 3
	for _, word := range words {
		d := distance(typed, word)
		if len(typed) > 1 && strings.HasPrefix(word, typed) {
			d = min(d, 1)
		}
		if d < least && d < len(word) {
			best, least = word, d
		}
	}
	return best
}

// distance counts the changes that make b out of a: insert, remove or replace a letter, or
// swap two neighbours.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// WithHints returns an error in the words of the command, with what its reader can do. text says what
// happened; each hint is a line of its own.
func WithHints(text string, err error, hints []string) error { return &Worded{text, err, hints} }

// Worded is an error in the words of the command, with what its reader can do. The message says what
// happened; each hint is a line of its own.
type Worded struct {
	text  string
	err   error
	hints []string
}

func (e *Worded) Error() string { return e.text }

func (e *Worded) Unwrap() error { return e.err }

func (e *Worded) Hints() []string { return e.hints }

// Under puts the name that a file is to get in the place of its temporary one.
func Under(path string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		of.Path = path
	}
	return err
}
