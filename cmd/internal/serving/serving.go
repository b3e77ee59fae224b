// Package serving has the command serve: its flags, and the files that they name. The server itself is a
// function that only the program with all libraries has.
package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// Options are what the command line says of the page.
type Options struct {
	Prefix   string
	Listen   string // address and port
	Token    string // empty: no token is asked for
	User     string // empty: no user is asked for
	Password string
	Hosts    []string // further names of this server
	Logs     []string // URLs of commit logs, each with # and the key of a follower
	Reports  []string // files
	Doctor   bool
	Rate     int // requests per minute; 0: the default
	Drift    float64
}

// Server serves the page until the context ends.
type Server func(ctx context.Context, in *cmdline.Invocation, o *Options) error

// access is the invocation of the command, as the commands of this package use it.
type access struct {
	leases.Opener
	server Server
}

// Commands returns the commands of this package. If server is nil, another program serves the page.
func Commands(in *cmdline.Invocation, server Server) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}, server}
	return cmdline.Commands{"serve": a.serveCommand}
}

func (a *access) serveCommand() *cobra.Command {
	o := &Options{}
	var tokenFile, passwordFile string
	cmd := &cobra.Command{
		Use:     "serve [PREFIX]",
		Short:   "Show the locks of a store on a page for browsers",
		GroupID: cmdline.GroupLocks,
		Long: `Show the locks of a store on a page for browsers, live, until you stop the command. The page only
reads. It shows the command lines that ask a holder or break a lock. PREFIX selects the lock with
that name and all locks below it.

By default only programs on this machine can open the page. If --listen names another address, give
--token-file or --password-file. No other user may have rights on that file. A browser asks for a
user and a password: with a token, the user is "token". serve does not encrypt: on a network, use a
proxy with TLS.

--report shows the saved results of "item sweep --json" and "item verify --json". --doctor examines
the store as "holdfast doctor" does, and writes test data.`,
		Example: `  holdfast serve
  holdfast --store s3://bucket/app serve jobs --log s3://bucket/commits#indexer
  holdfast serve --listen 10.0.0.5:7070 --token-file /etc/holdfast-page.token`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if args[0] == "" {
					return exit.Usagef("PREFIX is empty: name a prefix, or leave it out to show all locks")
				}
				o.Prefix = strings.TrimSuffix(args[0], "/")
			}
			if a.server == nil {
				return a.HandOver()
			}
			if err := cmdline.NotEmpty(cmd.Flags(), "token-file", "password-file", "log", "report"); err != nil {
				return err
			}
			if err := o.readSecrets(tokenFile, passwordFile); err != nil {
				return err
			}
			if err := o.check(cmd.Flags().Changed("requests-per-minute")); err != nil {
				return err
			}
			ctx, stop := cmdline.UntilSignal(cmd.Context())
			defer stop()
			return a.server(ctx, a.Invocation, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:7070", "address and port on which serve listens")
	flags.StringVar(&tokenFile, "token-file", "", "file with the token that opens the page")
	flags.StringVar(&passwordFile, "password-file", "", "file with USER:PASSWORD, which opens the page")
	flags.StringArrayVar(&o.Hosts, "host", nil, "further name of this server, if a proxy passes it on")
	flags.StringArrayVar(&o.Logs, "log", nil, "URL of a commit log to show; URL#KEY also shows how far the checkpoint KEY is behind")
	flags.StringArrayVar(&o.Reports, "report", nil, "file with the result of item sweep --json or item verify --json")
	flags.BoolVar(&o.Doctor, "doctor", false, "examine the store once; this writes test data")
	flags.IntVar(&o.Rate, "requests-per-minute", 0, "maximum number of requests to the store, for all pages together (default 600, or 6000 in a directory)")
	flags.Float64Var(&o.Drift, "max-clock-drift", 0, "maximum error of the rate of a clock (default 0.01, which is 1 %)")
	return cmd
}

const (
	maxSecretFile = 4096 // bytes
	minToken      = 16   // characters
	minPassword   = 8

	// maxRate is the maximum of dashboard.Options.RequestsPerMinute.
	maxRate = 60_000
)

func (o *Options) readSecrets(tokenFile, passwordFile string) (err error) {
	if tokenFile != "" {
		if o.Token, err = readSecret("--token-file", tokenFile); err != nil {
			return err
		}
		if len(o.Token) < minToken || strings.ContainsAny(o.Token, " \t\n") {
			return exit.With(exit.Unsafe, fmt.Errorf("--token-file: the token must have at least %d characters, without spaces; make one with openssl rand -hex 16", minToken))
		}
	}
	if passwordFile != "" {
		text, err := readSecret("--password-file", passwordFile)
		if err != nil {
			return err
		}
		o.User, o.Password, _ = strings.Cut(text, ":")
		if o.User == "" || len(o.Password) < minPassword || strings.Contains(text, "\n") {
			return exit.With(exit.Unsafe, fmt.Errorf("--password-file: the file must have one line USER:PASSWORD, with a password of at least %d characters", minPassword))
		}
	}
	return nil
}

// readSecret reads a file that only this user may read.
func readSecret(flag, path string) (string, error) {
	f, err := openSecret(path)
	if err != nil {
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: %w", flag, err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: %w", flag, err))
	case !info.Mode().IsRegular():
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: %s is not an ordinary file", flag, path))
	case runtime.GOOS == "windows":
	case info.Mode().Perm()&0o077 != 0:
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: other users have rights on %s: remove their rights with chmod 600", flag, path))
	case safefile.OwnerOf(info) != os.Geteuid() && safefile.OwnerOf(info) != 0:
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: %s belongs to another user", flag, path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: %w", flag, err))
	case len(text) > maxSecretFile:
		return "", exit.With(exit.Unsafe, fmt.Errorf("%s: %s is larger than %d bytes", flag, path, maxSecretFile))
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// check checks the flags against each other.
func (o *Options) check(rate bool) error {
	if rate && (o.Rate < 1 || o.Rate > maxRate) {
		return exit.Usagef("--requests-per-minute must be a whole number from 1 to %d", maxRate)
	}
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return exit.Usagef("--listen must be an address and a port, such as 127.0.0.1:7070 or [::1]:7070")
	}
	if !IsLoopback(host) && o.Token == "" && o.User == "" {
		return exit.Usagef("--listen %s can be reached from other machines: give --token-file or --password-file, or listen on 127.0.0.1:%s", cmp.Or(cmdline.Echoed(host), "without an address"), port)
	}
	for _, path := range o.Reports { // serve reads it later: its content can change until then
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return exit.With(exit.NotFound, fmt.Errorf("--report: %w", err))
		case err != nil:
			return fmt.Errorf("--report: %w", err)
		case !info.Mode().IsRegular():
			return exit.Usagef("--report: %s is not an ordinary file", path)
		}
	}
	return nil
}

var errAddress = errors.New("not an address")

// splitAddress is net.SplitHostPort without package net.
func splitAddress(address string) (host, port string, err error) {
	i := strings.LastIndexByte(address, ':')
	if i < 0 || i+1 == len(address) || strings.Trim(address[i+1:], "0123456789") != "" {
		return "", "", errAddress
	}
	host, port = address[:i], address[i+1:]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1], port, nil
	}
	if strings.ContainsAny(host, ":[]/ ") {
		return "", "", errAddress
	}
	return host, port, nil
}

// IsLoopback reports whether a host is an address of this machine that other machines cannot reach.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
