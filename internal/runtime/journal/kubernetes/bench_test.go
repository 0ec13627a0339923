package kubernetes_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// clients is how many create entries at the same time.
const clients = 8

// BenchmarkPayload creates the entry of a plain Turn with its payload as an object, as a string, and as a compressed
// string, and reports what each costs the API server.
//
//	go test ./internal/runtime/journal/kubernetes -run '^$' -bench Payload -benchtime 4000x
func BenchmarkPayload(b *testing.B) {
	raw, err := os.ReadFile("testdata/plain-turn.json")
	if err != nil {
		b.Fatal(err)
	}
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(raw, &spec); err != nil {
		b.Fatal(err)
	}
	for _, form := range []struct {
		name   string
		encode func([]byte) any
	}{
		{"object", func(p []byte) any { return json.RawMessage(p) }},
		{"string", func(p []byte) any { return string(p) }},
		{"compressed", func(p []byte) any { return compressed(p) }},
	} {
		b.Run(form.name, func(b *testing.B) { benchmarkPayload(b, spec, form.name, form.encode) })
	}
}

func compressed(p []byte) []byte {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	_, _ = w.Write(p)
	_ = w.Close()
	return buffer.Bytes()
}

func benchmarkPayload(b *testing.B, spec map[string]json.RawMessage, name string, encode func([]byte) any) {
	payload, err := json.Marshal(encode(spec["payload"]))
	if err != nil {
		b.Fatal(err)
	}
	written := map[string]json.RawMessage{}
	for key, value := range spec {
		written[key] = value
	}
	written["payload"] = payload
	body, err := json.Marshal(written)
	if err != nil {
		b.Fatal(err)
	}
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &v1alpha1.GroupVersion, "/apis", scheme.Codecs.WithoutConversion()
	api, err := rest.RESTClientFor(c)
	if err != nil {
		b.Fatal(err)
	}
	prefix := fmt.Sprintf("bench-%s-%d-", name, time.Now().UnixNano())
	before, memory := server(b, api)
	var next atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for range clients {
		group.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				object := fmt.Sprintf(
					`{"apiVersion":"capstan.dev/v1alpha1","kind":"JournalEntry","metadata":{"name":%q},"spec":%s}`,
					prefix+strconv.FormatInt(n, 10),
					body,
				)
				if err := api.Post().Namespace("default").Resource("journalentries").Body([]byte(object)).
					SetHeader("Content-Type", "application/json").Do(b.Context()).Error(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	after, grown := server(b, api)
	stored, err := api.Get().Namespace("default").Resource("journalentries").Name(prefix + "1").Do(b.Context()).Raw()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(body)), "spec-B")
	b.ReportMetric(float64(len(stored)), "object-B")
	b.ReportMetric((after-before)*1e6/float64(b.N), "server-cpu-µs/op")
	b.ReportMetric((grown-memory)/float64(b.N), "server-heap-B/op")
}

// server returns the CPU time of the API server in seconds, and its heap in bytes, as it is at that time.
func server(b *testing.B, api rest.Interface) (cpu, heap float64) {
	b.Helper()
	text, err := api.Get().AbsPath("/metrics").Do(b.Context()).Raw()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "process_cpu_seconds_total":
			cpu = number
		case name == "go_memstats_heap_alloc_bytes":
			heap = number
		}
	}
	return cpu, heap
}
