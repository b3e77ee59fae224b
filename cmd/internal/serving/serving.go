// Package serving has the command serve and those below it: their flags, and the files that they name. The servers
// are functions that only the program with all libraries has.
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
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// Access says who can reach a server.
type Access struct {
	Listen   string // address and port
	Token    string // empty: no token is asked for
	User     string // empty: no user is asked for
	Password string
	Hosts    []string // further names of this server

	tokenFile, passwordFile string
}

// Options are what the command line says of the page.
type Options struct {
	Access
	Prefix  string
	Logs    []string // URLs of commit logs, each with # and the key of a follower
	Reports []string // files
	Doctor  bool
	Rate    int // requests per minute; 0: the default
	Drift   float64
}

// TofuOptions are what the command line says of the states of OpenTofu.
type TofuOptions struct {
	Access
	Keep int // versions of each state
}

// Servers are the servers. Each serves until the context ends.
type Servers struct {
	Page func(ctx context.Context, in *cmdline.Invocation, o *Options) error
	Tofu func(ctx context.Context, in *cmdline.Invocation, o *TofuOptions) error
}

// access is the invocation of the command, as the commands of this package use it.
type access struct {
	leases.Opener
	servers *Servers
}

// Commands returns the commands of this package. If servers is nil, another program has the servers.
func Commands(in *cmdline.Invocation, servers *Servers) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}, servers}
	return cmdline.Commands{"serve": a.serveCommand}
}

func (a *access) serveCommand() *cobra.Command {
	o := &Options{}
	cmd := &cobra.Command{
		Use:     "serve [PREFIX]",
		Short:   "Show the locks of a store on a page for browsers",
		GroupID: cmdline.GroupLocks,
		Long: `Show the locks of a store on a page for browsers, live, until you stop the command. The page only
reads. It shows the command lines that ask a holder to yield, or break a lock. PREFIX selects the
lock with that name and all locks below it. To show the locks below "tofu", type "tofu/".

By default only programs on this machine, of any user, can open the page. If --listen names another
address, give --token-file or --password-file. No other user may have rights on that file. A browser
asks for a user and a password: with a token, the user is "token" and the password is the token.
serve does not encrypt: on a network, use a proxy with TLS.

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
			if a.servers == nil {
				return a.HandOver()
			}
			if err := cmdline.NotEmpty(cmd.Flags(), "log", "report"); err != nil {
				return err
			}
			if cmd.Flags().Changed("requests-per-minute") && (o.Rate < 1 || o.Rate > maxRate) {
				return exit.Usagef("--requests-per-minute must be a whole number from 1 to %d", maxRate)
			}
			if err := cmp.Or(o.check(cmd), o.checkReports()); err != nil {
				return err
			}
			ctx, stop := cmdline.UntilSignal(cmd.Context())
			defer stop()
			return a.servers.Page(ctx, a.Invocation, o)
		},
	}
	flags := cmd.Flags()
	o.addFlags(flags, "127.0.0.1:7070")
	flags.StringArrayVar(&o.Logs, "log", nil, "URL of a commit log to show; URL#KEY also shows how far the checkpoint KEY is behind")
	flags.StringArrayVar(&o.Reports, "report", nil, "file with the result of item sweep --json or item verify --json")
	flags.BoolVar(&o.Doctor, "doctor", false, "examine the store once; this writes test data")
	flags.IntVar(&o.Rate, "requests-per-minute", 0, "maximum number of requests to the store, for all pages together (default 600, or 6000 in a directory)")
	flags.Float64Var(&o.Drift, "max-clock-drift", 0, "maximum error of the rate of a clock (default 0.01, which is 1 %)")
	cmd.AddCommand(a.tofuCommand())
	return cmd
}

func (a *access) tofuCommand() *cobra.Command {
	o := &TofuOptions{}
	cmd := &cobra.Command{
		Use:   "tofu",
		Short: "Keep the states of OpenTofu and Terraform, with their locks and earlier versions",
		Long: `Keep the states of OpenTofu and Terraform in the store, with their locks and earlier versions, until
you stop the command. Set address, lock_address and unlock_address of the backend "http" to
http://127.0.0.1:7071/state/NAME. A name can contain slashes. You can start the command on several
machines with the same store.

A lock remains until its holder or "tofu force-unlock" releases it. GET /history/NAME lists the
versions of a state, GET /state/NAME?version=7 returns one, and GET /lock/NAME shows the holder.

By default only programs on this machine, of any user, have access. For another address, give
--listen and --password-file or --token-file (user "token", the password is the token). The client
sends TF_HTTP_USERNAME and TF_HTTP_PASSWORD. States contain secrets, and the command does not
encrypt: on a network, use a proxy with TLS.`,
		Example: `  holdfast serve tofu
  holdfast --store s3://bucket/states serve tofu --listen 10.0.0.5:7071 --password-file /etc/states.password
  curl http://127.0.0.1:7071/history/prod/network`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.servers == nil {
				return a.HandOver()
			}
			if err := o.check(cmd); err != nil {
				return err
			}
			ctx, stop := cmdline.UntilSignal(cmd.Context())
			defer stop()
			return a.servers.Tofu(ctx, a.Invocation, o)
		},
	}
	o.addFlags(cmd.Flags(), "127.0.0.1:7071")
	cmd.Flags().IntVar(&o.Keep, "keep", 100, "number of versions to keep of each state, from 1 to 150")
	return cmd
}

func (o *Access) addFlags(flags *pflag.FlagSet, listen string) {
	flags.StringVar(&o.Listen, "listen", listen, "address and port on which the server listens")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token that gives access")
	flags.StringVar(&o.passwordFile, "password-file", "", "file with USER:PASSWORD, which gives access")
	flags.StringArrayVar(&o.Hosts, "host", nil, "further name of this server, if a proxy passes it on")
}

const (
	maxSecretFile = 4096 // bytes
	minToken      = 16   // characters
	minPassword   = 8

	// maxRate is the maximum of dashboard.Options.RequestsPerMinute.
	maxRate = 60_000
)

func (o *Access) readSecrets() (err error) {
	if o.tokenFile != "" {
		if o.Token, err = readSecret(o.tokenFile); err != nil {
			return exit.With(exit.Unsafe, fmt.Errorf("--token-file: %w", err))
		}
		if len(o.Token) < minToken || strings.ContainsAny(o.Token, " \t\n") {
			return exit.With(exit.Unsafe, fmt.Errorf("--token-file: the token must have at least %d characters, without spaces; make one with openssl rand -hex 16", minToken))
		}
	}
	if o.passwordFile != "" {
		text, err := readSecret(o.passwordFile)
		if err != nil {
			return exit.With(exit.Unsafe, fmt.Errorf("--password-file: %w", err))
		}
		o.User, o.Password, _ = strings.Cut(text, ":")
		if o.User == "" || len(o.Password) < minPassword || strings.Contains(text, "\n") {
			return exit.With(exit.Unsafe, fmt.Errorf("--password-file: the file must have one line USER:PASSWORD, with a password of at least %d characters", minPassword))
		}
	}
	return nil
}

// readSecret reads a file that only this user may read.
func readSecret(path string) (string, error) {
	f, err := openSecret(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not an ordinary file", path)
	case runtime.GOOS == "windows":
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("other users have rights on %s: remove their rights with chmod 600", path)
	case safefile.OwnerOf(info) != os.Geteuid() && safefile.OwnerOf(info) != 0:
		return "", fmt.Errorf("%s belongs to another user", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(text) > maxSecretFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxSecretFile)
	}
	return strings.TrimRight(string(text), "\r\n"), err
}

// checkReports checks the files of --report.
func (o *Options) checkReports() error {
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

// check reads the files that the flags name, and checks the flags against each other.
func (o *Access) check(cmd *cobra.Command) error {
	if err := cmp.Or(cmdline.NotEmpty(cmd.Flags(), "token-file", "password-file"), o.readSecrets()); err != nil {
		return err
	}
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return exit.Usagef("--listen must be an address and a port, such as 127.0.0.1:7070 or [::1]:7070")
	}
	if !IsLoopback(host) && o.Token == "" && o.User == "" {
		return exit.Usagef("--listen %s can be reached from other machines: give --token-file or --password-file, or listen on 127.0.0.1:%s", cmp.Or(cmdline.Echoed(host), "without an address"), port)
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
