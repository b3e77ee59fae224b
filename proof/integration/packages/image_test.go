package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseOfACommit: a release contains what is committed, and nothing else.
func TestReleaseOfACommit(t *testing.T) {
	top := t.TempDir()
	script := filepath.Join(top, "internal/release.sh")
	if err := os.Mkdir(filepath.Join(top, "internal"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"internal/release.sh", "internal/modules.sh"} {
		write(t, filepath.Join(top, file), read(t, filepath.Join(root, file)))
	}
	git := []string{"-C", top, "-c", "user.name=a", "-c", "user.email=a@example.org"}
	out(t, nil, "git", append(git, "init", "-q")...)
	out(t, nil, "git", append(git, "add", ".")...)
	out(t, nil, "git", append(git, "commit", "-q", "-m", "a")...)
	for _, notes := range []bool{false, true} { // without them, it fails at the modules, which are not there
		if notes {
			write(t, filepath.Join(top, "notes"), "")
		}
		text, err := try(t, []string{"RELEASE_DIST="}, "bash", script, "v"+version)
		if err == nil || strings.Contains(text, "not committed") != notes {
			t.Errorf("notes that are not committed: %v: %v: %s", notes, err, text)
		}
	}
}

// TestImage: the container image is made only of archives whose checksums are in the list.
func TestImage(t *testing.T) {
	for name, want := range map[string]struct {
		listed, written string // the text of the program for arm64, when the list was made and now
		ok              bool
	}{
		"all listed": {"arm64", "arm64", true},
		"altered":    {"arm64", "other", false},
		"not listed": {"", "arm64", false},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dist := filepath.Join(top, "dist")
			write(t, filepath.Join(top, "certificates"), "")
			for _, file := range []string{"internal/image.sh", "Dockerfile"} {
				path := filepath.Join(top, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, path, read(t, filepath.Join(root, file)))
			}
			pack := func(arch, text string) (line string) {
				folder := "holdfast_" + version + "_linux_" + arch
				if err := os.MkdirAll(filepath.Join(dist, folder), 0o755); err != nil {
					t.Fatal(err)
				}
				for _, file := range []string{"holdfast", "holdfast-stores", "LICENSE", "THIRD-PARTY-LICENSES"} {
					write(t, filepath.Join(dist, folder, file), text)
				}
				archive := folder + ".tar.gz"
				out(t, nil, "tar", "-C", dist, "-czf", filepath.Join(dist, archive), folder)
				return sum(t, filepath.Join(dist, archive)) + "  " + archive + "\n"
			}
			list := pack("amd64", "amd64")
			if want.listed != "" {
				list += pack("arm64", want.listed)
			}
			write(t, filepath.Join(dist, "SHA256SUMS"), list)
			if want.written != want.listed {
				pack("arm64", want.written)
			}
			text, err := try(t, []string{"SSL_CERT_FILE=" + filepath.Join(top, "certificates")}, "bash", filepath.Join(top, "internal/image.sh"), "v"+version, "--context", filepath.Join(top, "context"))
			if (err == nil) != want.ok {
				t.Errorf("%v: %s", err, strings.TrimSpace(text))
			}
		})
	}
}
