package stores

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// ConfigVariable names a file in place of those below.
const ConfigVariable = "HOLDFAST_CONFIG"

// systemConfig is the file with the stores of all users of a machine.
const systemConfig = "/etc/holdfast.conf"

// maxConfig is how much of a file with stores is read at most, in bytes.
const maxConfig = 64 << 10

// config is a file that names stores, so that root, other users and cron mean the same
// store by one name.
type config struct {
	path     string
	stores   map[string]string // URL by name
	standard string            // the name of the store to use if none is given; may be empty
}

// storeName reports whether name can name a store: it has letters, digits, and _ . - after
// the first.
func storeName(name string) bool {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return name != "" && strings.IndexByte(first, name[0]) >= 0 && strings.Trim(name, first+"_.-") == ""
}

// configPaths are the files that are read. The earlier file takes precedence: the user's
// own before that of the machine. HOLDFAST_CONFIG names another file in place of both.
func configPaths() ([]string, error) {
	if path, set := os.LookupEnv(ConfigVariable); set {
		if path == "" {
			return nil, exit.Usagef("HOLDFAST_CONFIG is empty: name a file, or unset the variable")
		}
		return []string{path}, nil
	}
	var paths []string
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		paths = append(paths, filepath.Join(dir, "holdfast.conf"))
	} else if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		paths = append(paths, filepath.Join(home, ".config", "holdfast.conf"))
	}
	return append(paths, systemConfig), nil
}

// readConfig reads one file. It returns nil if the file does not exist. It refuses a file
// that other users can change: the file says where this user's locks are, and which server
// gets the credentials.
func readConfig(path string, needed bool) (*config, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if needed {
			return nil, exit.With(exit.NotFound, fmt.Errorf("HOLDFAST_CONFIG names the file %s, which does not exist", path))
		}
		return nil, nil
	}
	real, err := safefile.ExclusiveFile(path, nil, nil)
	if errors.Is(err, fs.ErrPermission) {
		return nil, exit.With(exit.Denied, err)
	}
	if err != nil {
		return nil, exit.With(exit.Unsafe, fmt.Errorf("the configuration file %s is not safe: %w", path, err))
	}
	f, err := os.Open(real)
	if err != nil {
		return nil, exit.With(exit.Denied, err)
	}
	defer f.Close()
	c := &config{path: path, stores: map[string]string{}}
	bounded := &io.LimitedReader{R: f, N: maxConfig + 1}
	lines := bufio.NewScanner(bounded)
	for n := 1; lines.Scan(); n++ {
		if err := c.line(lines.Text()); err != nil {
			return nil, exit.With(exit.Unsafe, fmt.Errorf("%s, line %d: %w", path, n, err))
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, exit.With(exit.Unsafe, fmt.Errorf("%s: %w", path, lines.Err()))
	case bounded.N == 0:
		return nil, exit.With(exit.Unsafe, fmt.Errorf("%s is longer than %d bytes", path, maxConfig))
	case c.standard != "" && c.stores[c.standard] == "":
		return nil, exit.With(exit.Unsafe, fmt.Errorf("%s: the default store %q is not defined in this file", path, c.standard))
	}
	return c, nil
}

// line reads "store NAME = URL", "default = NAME", a comment or nothing. Its errors repeat nothing of the line but a
// valid name: where a = is missing, the text before the first = can be a URL with its password.
func (c *config) line(text string) error {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "#") {
		return nil
	}
	key, value, found := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	name, isStore := strings.CutPrefix(key, "store ")
	name = strings.TrimSpace(name)
	if key == "default" {
		name = value
	}
	switch {
	case !found, value == "", key != "default" && !isStore, !storeName(name):
		return errors.New(`the line must be "store NAME = URL" or "default = NAME"; NAME has letters and digits, and _ . - after the first`)
	case key == "default" && c.standard != "":
		return errors.New("the file already has a default")
	case key == "default":
		c.standard = value
	case c.stores[name] != "":
		return fmt.Errorf("store %q is named twice", name)
	case strings.HasPrefix(value, "file:") && !filepath.IsAbs(strings.TrimPrefix(value, "file:")):
		return fmt.Errorf("store %q: the path of a directory must be absolute here: file:/PATH", name)
	default:
		c.stores[name] = value
	}
	return nil
}

// Named resolves a store that is given by name: it returns the URL that the name means.
// It returns a URL as it is. If nothing is given, it returns the default of the first
// file that has one, or else the empty string.
func (a *Access) Named(given string) (url string, err error) {
	if given != "" && !storeName(given) {
		return given, nil // a URL, or a text that cannot be a name in the files
	}
	paths, err := configPaths()
	if err != nil {
		return "", err
	}
	_, only := os.LookupEnv(ConfigVariable)
	var read []string
	for _, path := range paths {
		c, err := readConfig(path, only)
		if err != nil {
			return "", err
		}
		if c == nil {
			continue
		}
		read = append(read, path)
		name := cmp.Or(given, c.standard)
		if url := c.stores[name]; url != "" {
			if _, known := a.named[url]; !known && a.Verbose {
				if a.named == nil {
					a.named = make(map[string]string)
				}
				a.named[url] = fmt.Sprintf("the store is %s, from %s", name, path)
			}
			return url, nil
		}
	}
	if given == "" {
		return "", nil
	}
	if len(read) == 0 {
		return given, nil // the error for an unknown kind of store says what to do
	}
	return "", exit.Usagef("there is no store %q in %s; for a directory write file:%s", given, strings.Join(read, " or "), given)
}
