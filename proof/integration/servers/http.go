package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// answers returns nil if a server answers a GET with the status 200.
func answers(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

// trusting returns a client that trusts the certificate in a file, and keeps no connection.
func trusting(cert string) (*http.Client, error) {
	config, err := trustingTLS(cert)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}, err
}

func trustingTLS(cert string) (*tls.Config, error) {
	text, err := os.ReadFile(cert)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: roots}, err
}
