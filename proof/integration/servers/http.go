package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

// answers returns nil if a server answers a GET with the status 200.
func answers(ctx context.Context, client *http.Client, url string) error {
	resp, err := httpDo(ctx, client, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

func httpDo(ctx context.Context, client *http.Client, method, url string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	return client.Do(r)
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
