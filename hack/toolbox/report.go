package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// report reports the start of this tool to a server and prints the server's response, however long that takes. So an
// outside observer counts how often a tool really ran, and decides when it ends.
func report(s streams) error {
	args, err := arguments[struct{ URL string }](s)
	if err != nil {
		return err
	}
	if args.URL == "" {
		return errors.New("report takes a url")
	}
	var body bytes.Buffer
	if err := writeEnv(&body, os.Environ()); err != nil {
		return fmt.Errorf("describing this run: %w", err)
	}
	response, err := http.Post(args.URL, "application/json", &body)
	if err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reporting: the server responded with %s", response.Status)
	}
	if _, err := io.Copy(s.out, response.Body); err != nil {
		return fmt.Errorf("reading the server's response: %w", err)
	}
	return nil
}
