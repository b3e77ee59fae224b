package allstores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// maxOptionFile is the largest option file that is read, in bytes.
const maxOptionFile = 1 << 20

// readOptionFile reads user and password from the section [client] of ~/.my.cnf, the option file of MySQL's
// own programs. It refuses a file with a password that other users can read.
func readOptionFile() (map[string]string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, nil
	}
	path := filepath.Join(home, ".my.cnf")
	found, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !found.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: the option file %s is not an ordinary file", store.ErrMisconfigured, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the option file %s: %w", store.ErrMisconfigured, path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOptionFile))
	if err != nil {
		return nil, fmt.Errorf("%w: the option file %s: %w", store.ErrMisconfigured, path, err)
	}
	options := clientOptions(string(text))
	owner := safefile.OwnerOf(info)
	switch {
	case options["password"] == "" || runtime.GOOS == "windows":
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%w: other users may have access to the password in %s: remove their rights with chmod 600", store.ErrUnsafe, path)
	case owner != os.Geteuid() && owner != 0:
		return nil, fmt.Errorf("%w: the option file %s contains a password and belongs to another user: set HOME, or set MYSQL_PWD and name the user in the URL", store.ErrUnsafe, path)
	}
	return options, nil
}

// clientOptions returns the options of the section [client].
func clientOptions(text string) map[string]string {
	options := make(map[string]string)
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		name, value, found := strings.Cut(line, "=")
		if section != "[client]" || !found || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if value = strings.TrimSpace(value); len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		options[strings.TrimSpace(name)] = value
	}
	return options
}
