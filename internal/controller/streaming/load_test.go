package streaming

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// BenchmarkSubscribers measures the memory, the processor time and the lag of many subscribers, who are in this process
// too: each chunk of a response, 20 a second, is awaited by all.
func BenchmarkSubscribers(b *testing.B) {
	for _, load := range []struct{ subscribers, sessions int }{{500, 1}, {2000, 2000}} {
		b.Run(fmt.Sprintf("%d of %d Sessions", load.subscribers, load.sessions), func(b *testing.B) {
			measure(b, load.subscribers, load.sessions)
		})
	}
}

// words are the marks of chunks.
var words = regexp.MustCompile(`<[0-9]+>`)

// measured is what the subscribers of a benchmark have seen.
type measured struct {
	mu   sync.Mutex
	lags []time.Duration
	sent map[string]time.Time
}

func measure(b *testing.B, subscribers, sessions int) {
	bench := newBench(b, many(), nil).lead()
	for i := range subscribers {
		name := "u" + strconv.Itoa(i%40)
		bench.api.change(func() {
			bench.api.tokens["capstan.dev "+name] = name
			bench.api.allowed = append(bench.api.allowed, name)
		})
	}
	before := heap()
	m := &measured{sent: map[string]time.Time{}}
	var synced, done sync.WaitGroup
	synced.Add(subscribers)
	for i := range subscribers {
		client := bench.client("u" + strconv.Itoa(i%40))
		body := bench.get(client, "/v1/namespaces/ns/sessions/s"+strconv.Itoa(i%sessions)+"/events").Body
		done.Go(func() { m.read(bufio.NewReader(body), synced.Done) })
	}
	synced.Wait()
	grown := heap() - before
	texts, said := make([]live.Text, sessions), make([]string, sessions)
	for i := range texts {
		uid := types.UID("s" + strconv.Itoa(i) + "-uid")
		texts[i] = bench.bus.Respond(live.Response{UID: uid, Message: "m"})
	}
	cpu, began := processor(), time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	chunks := 0
	for b.Loop() {
		<-tick.C
		chunks++
		// Each Session has a chunk a second if there are many.
		for i := range texts {
			if sessions > 1 && i%20 != chunks%20 {
				continue
			}
			word := fmt.Sprintf("<%d>", chunks)
			m.mu.Lock()
			m.sent[word] = time.Now()
			m.mu.Unlock()
			said[i] += word + "text of a chunk that is as long as usual "
			texts[i].Write(said[i])
		}
	}
	elapsed := time.Since(began)
	used := processor() - cpu
	bench.stop()
	done.Wait()
	slices.Sort(m.lags)
	if len(m.lags) == 0 {
		b.Fatal("no chunk has arrived")
	}
	b.ReportMetric(float64(grown)/float64(subscribers), "heap-B/subscriber")
	b.ReportMetric(used.Seconds()/elapsed.Seconds(), "cores")
	b.ReportMetric(float64(m.lags[len(m.lags)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(m.lags[len(m.lags)*99/100].Microseconds())/1000, "p99-ms")
}

// read reads a stream, and notes how late each chunk is.
func (m *measured) read(from *bufio.Reader, synced func()) {
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		now := time.Now()
		var e stream.Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		if e.Type == stream.TypeStreamSynced {
			synced()
		}
		if e.Type != stream.TypeOutputMessageDelta {
			continue
		}
		delta, err := stream.Decode[stream.OutputMessageDelta](e)
		if err != nil {
			return
		}
		m.mu.Lock()
		for _, word := range words.FindAllString(delta.Text, -1) {
			m.lags = append(m.lags, now.Sub(m.sent[word]))
		}
		m.mu.Unlock()
	}
}

// heap is the memory in use after a collection, with stacks.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// processor is the processor time of this process.
func processor() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
