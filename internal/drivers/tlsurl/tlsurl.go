// Package tlsurl reads what the URL of a store says about its servers: their addresses, and certificates.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
)

// Parameters are the parameters that [Config] reads.
var Parameters = []string{"tls", "cacert", "cert", "key"}

// Addresses returns the addresses HOST:PORT in the host part of a URL: hosts, separated by commas.
func Addresses(hosts, defaultPort string) (addresses []string) {
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		addresses = append(addresses, host)
	}
	return addresses
}

// Hosts returns the hosts of URLs, or of addresses, without users and passwords.
func Hosts(servers []string) (hosts []string) {
	for _, server := range servers {
		if _, rest, found := strings.Cut(server, "://"); found {
			server = rest
		}
		server = server[strings.LastIndex(server, "@")+1:]
		if server != "" {
			hosts = append(hosts, server)
		}
	}
	return hosts
}

// Config returns the configuration that the parameters tls, cacert, cert and key demand. It returns nil if they
// do not demand TLS. It reads the files. Its errors contain no part of the URL.
func Config(query url.Values) (*tls.Config, error) {
	on := query.Get("tls")
	files := query.Has("cacert") || query.Has("cert") || query.Has("key")
	switch {
	case on != "" && on != "true" && on != "false":
		return nil, errors.New("the parameter tls must be true or false")
	case on == "false" && files:
		return nil, errors.New("it has tls=false, and names certificates: remove one of the two")
	case on != "true" && !files:
		return nil, nil
	}
	return Certificates(query, "cacert", "cert", "key")
}

// Certificates returns a configuration with the certificates in the files that three parameters name: the
// certificates that may sign the server's, the client's certificate, and its key. Its errors contain no part of
// the URL.
func Certificates(query url.Values, authorities, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := query.Get(authorities); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the parameter %s: %w", authorities, WithoutPath(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file that the parameter %s names contains no certificate", authorities)
		}
	}
	if query.Has(cert) != query.Has(key) {
		return nil, fmt.Errorf("it must have both parameters %s and %s, or none of them", cert, key)
	}
	if query.Has(cert) {
		pair, err := tls.LoadX509KeyPair(query.Get(cert), query.Get(key))
		if err != nil {
			return nil, fmt.Errorf("the parameters %s and %s: %w", cert, key, WithoutPath(err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// WithoutPath returns the cause of an error of a file. The path could be a secret at the wrong place.
func WithoutPath(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}
