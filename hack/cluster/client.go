package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// apiClient reads the few things from the API server that this command needs. No proxy is ever used: the server is on
// this machine.
type apiClient struct {
	base, token string
	http        *http.Client
}

func (c *cluster) apiClient() (*apiClient, error) {
	ca, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the authority's certificate cannot be read")
	}
	tokens, err := os.ReadFile(c.path("pki", "tokens.csv"))
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's token: %w", err)
	}
	token, _, _ := strings.Cut(string(tokens), ",")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	return &apiClient{
		base:  "https://" + loopback(c.apiPort()),
		token: token,
		http:  &http.Client{Transport: transport, Timeout: 5 * time.Second},
	}, nil
}

// get decodes the response into out, unless that is nil.
func (a *apiClient) get(ctx context.Context, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// nodeReady returns nil once the cluster's one node is Ready.
func (c *cluster) nodeReady(ctx context.Context) error {
	client, err := c.apiClient()
	if err != nil {
		return err
	}
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := client.get(ctx, "/api/v1/nodes/"+c.Name, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status != "True" {
			return fmt.Errorf("the node is not Ready: %s", condition.Message)
		}
		return nil
	}
	return errors.New("the node has not reported whether it is Ready")
}

// podsPossible returns nil once a pod can be created. That wants the service account that it runs as, which is among
// the first things the controllers make once all of them have started.
func (c *cluster) podsPossible(ctx context.Context) error {
	client, err := c.apiClient()
	if err != nil {
		return err
	}
	return client.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
}

func getHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
