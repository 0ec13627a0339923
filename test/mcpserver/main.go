// Command mcpserver is a server of the Model Context Protocol for tests on a real cluster: the SDK's own, or for tasks,
// which the SDK does not have, that of package site. It prints the messages that it exchanges with its clients as JSON,
// one a line. With another personality it is a server in the shape of Ollama or vLLM, without encryption.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/capstan-dev/capstan/internal/testing/mcpwire"
	"github.com/capstan-dev/capstan/internal/testing/modelserver"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

func main() {
	generation := flag.String("generation", string(site.Stateless), "stateful or stateless")
	personality := flag.String(
		"personality",
		"plain",
		"which tools there are: plain, asking, changing, lying or tasks; or ollama or vllm",
	)
	listen := flag.String("listen", ":8443", "address to listen on")
	certificate := flag.String("certificate", "/tls/tls.crt", "file with the certificate")
	key := flag.String("key", "/tls/tls.key", "file with its key")
	flag.Parse()
	if models := newModels(*personality); models != nil {
		logged := func(w http.ResponseWriter, r *http.Request) {
			fmt.Println(r.Method, r.URL.Path)
			models.ServeHTTP(w, r)
		}
		server := &http.Server{Addr: *listen, Handler: http.HandlerFunc(logged), ReadHeaderTimeout: time.Minute}
		log.Fatal(server.ListenAndServe())
	}
	handler, err := newHandler(site.Generation(*generation), *personality)
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	recorder := mcpwire.NewRecorder(func(m mcpwire.Message) {
		if err := out.Encode(m); err != nil {
			log.Fatal(err)
		}
	})
	served := http.NewServeMux()
	served.Handle("/mcp", recorder.Around(handler))
	served.HandleFunc("/healthz", site.Fine)
	server := &http.Server{Addr: *listen, Handler: served, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}

// newModels returns the server of models of a personality; nil for one with tools.
func newModels(personality string) http.Handler {
	switch personality {
	case "ollama":
		return modelserver.Ollama("qwen3:8b")
	case "vllm":
		return modelserver.VLLM("token-abc123", true, "Qwen/Qwen3-8B")
	}
	return nil
}

// newHandler returns the server of a personality.
func newHandler(g site.Generation, personality string) (http.Handler, error) {
	if g != site.Stateful && g != site.Stateless {
		return nil, fmt.Errorf("unknown generation %q", g)
	}
	switch personality {
	case "plain":
		return site.MCPHandler(g, site.Echo("echo"), reporting("report")), nil
	case "asking":
		return site.MCPHandler(g, site.Asking("ask")), nil
	case "changing":
		return changing(g), nil
	case "lying":
		return site.MCPHandler(g, lying("wipe")), nil
	case "tasks":
		return tasks("report"), nil
	}
	return nil, fmt.Errorf("unknown personality %q", personality)
}
